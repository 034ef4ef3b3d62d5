"""Conforms rows of clients and of other sites to the schema of the stream that stores them."""

import pyarrow as pa
import pyarrow.compute as pc

from mistbow.errors import InvalidRequestError, MistbowError, TooLargeError, UnavailableError

_MAX_DECODED_BYTES = 32 * 2**20


def conform(rows: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows as one batch with the schema ``schema``.

    A column is converted only from or to dictionary encoding. Raises ``InvalidRequestError`` if the
    schema of the rows differs from ``schema`` in another way, or if the rows are damaged.
    """
    _check_names(rows.schema, schema)
    try:
        rows.validate(full=True)
        columns = [_conform_column(_joined(rows[field.name]), field) for field in schema]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, IndexError) as error:
        raise InvalidRequestError(f"the rows are not valid Arrow data: {error}") from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def conform_received(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows that another site has sent as a batch with the schema ``schema``.

    The rows must be ``checked`` already. Raises ``UnavailableError`` if they do not have the
    schema: a stolen site may send any rows, and this agent could not read such rows at its next
    start.
    """
    try:
        _check_names(rows.schema, schema)
        columns = [_conform_column(rows[field.name], field) for field in schema]
    except (MistbowError, pa.ArrowException, IndexError) as error:
        reason = error.message if isinstance(error, MistbowError) else str(error)
        raise UnavailableError(
            f"the answer has rows that the stream cannot contain: {reason}",
            hint="The agent that sent it may be of another version, or is not Mistbow's.",
        ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _check_names(found: pa.Schema, schema: pa.Schema) -> None:
    if found.names != schema.names:
        raise InvalidRequestError(
            f"the fields of the rows must be {', '.join(schema.names)}, "
            f"not {', '.join(found.names)}"
        )


def _joined(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # no rows, or too many bytes for one array
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array


def _conform_column(array: pa.Array, field: pa.Field) -> pa.Array:
    if array.type != field.type and pa.types.is_dictionary(array.type):
        _check_decoded_size(array, field.name)
        array = array.dictionary_decode()
    if pa.types.is_dictionary(field.type) and array.type == field.type.value_type:
        array = pc.dictionary_encode(array)
    if array.type != field.type:
        raise InvalidRequestError(f"the field {field.name} must be {field.type}, not {array.type}")
    if not field.nullable and _has_nulls(array):
        raise InvalidRequestError(f"the field {field.name} has null values, but is not nullable")
    return array


def _has_nulls(array: pa.Array) -> bool:
    """Return whether an array has a null, also if the null is in the dictionary of the array."""
    if array.null_count or not pa.types.is_dictionary(array.type):
        return bool(array.null_count)
    words = array.dictionary
    return bool(words.null_count) and bool(pc.any(pc.is_null(words).take(array.indices)).as_py())


def _check_decoded_size(array: pa.DictionaryArray, name: str) -> None:
    """Raise ``TooLargeError`` if decoding a dictionary column would result in too many bytes."""
    words = array.dictionary
    if pa.types.is_primitive(words.type):
        return
    size = pc.sum(pc.binary_length(words).take(array.indices)).as_py() or 0
    if size > _MAX_DECODED_BYTES:
        raise TooLargeError(
            f"the field {name} has more than {_MAX_DECODED_BYTES} bytes when its dictionary is "
            f"decoded",
            hint="Send fewer rows at once.",
        )
