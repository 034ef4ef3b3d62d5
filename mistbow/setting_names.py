"""The names of all settings, and warnings about unknown variables with the prefix of settings."""

import difflib
import re
from collections.abc import Mapping

_PREFIX = "MISTBOW_"

_NAMES = """
    adaptive adaptive_longest_ms agent_port agent_url body_seconds buffer_points clock_alarm_ms
    collect_routes disk_alarm_mb domain domain_labels domain_sites drain_s driver_memory
    duplicates durability enabler_port enabler_url grafana_url home host host_names
    identities_required identity_file ignite_address ignite_backups ignite_communication_port
    ignite_discovery_port ignite_heap_mb ignite_host ignite_keystore ignite_keystore_password
    ignite_nodes ignite_port ignite_tls_ca influx_entity insights interval_ms jars labels
    lateness_ms link_probe_s log_level max_body_bytes max_disk_mb max_followers max_points
    max_requests max_series monitor_identity_file monitor_port monitor_scope move_after_s
    mqtt_topics mqtt_url node node_battery_wh node_charge_at node_charge_wh node_charging_w
    node_cores_free node_full_w node_idle_w node_position node_price_per_core_hour
    node_price_per_gb own_urls pages patience_ms peers promql_samples promql_seconds region
    remote_write_entity replica_free_mb replication_every_ms replication_policy restrictions
    retention_s scheduler scheduler_settings services site sources spark_master spool_mb
    sql_max_rows sql_memory_mb sql_queries sql_seconds timestamp_unit tls_ca tls_cert
    tls_client_ca tls_key token token_file tokens_file when_away when_fenced when_full
    worker_identity_file worker_port worker_url
"""
SETTINGS = frozenset(_NAMES.split())
"""The names of the settings of all services and commands.

The services of a node share their environment, and none knows the settings of the others.
"""

_NAMES_OF_TOOLS = """
    chaos_page chaos_s city_agents cloud_port cut_replies edges edge_ports examples faults
    fork_server frozen_s handovers handovers_page image loaded_s matrix max_pause_s needs_docker
    promql_testdata rate regions region_ports rounds run scenario_page scenario_s screenshots seed
    test_port token_files
"""
_OTHERS = frozenset(_NAMES_OF_TOOLS.split())
"""The names that tools, benchmarks and tests use in environments that services may inherit."""

_OF_KUBERNETES = re.compile(r"_SERVICE_(HOST|PORT)|_PORT_[0-9]+_(TCP|UDP|SCTP)")
"""Variables that Kubernetes sets for services whose names begin with ``mistbow-``."""

_MAX_WARNINGS = 10
_MAX_SHOWN = 60


def unknown_settings(variables: Mapping[str, str]) -> list[str]:
    """Return a warning for each environment variable that has the prefix, but is no setting.

    >>> unknown_settings({"MISTBOW_AGENTPORT": "5", "MISTBOW_AGENT_PORT": "6", "PATH": "/bin"})
    ['MISTBOW_AGENTPORT is no setting, and has no effect. Did you mean MISTBOW_AGENT_PORT?']
    """
    found = []
    for variable, value in sorted(variables.items()):
        name = variable.upper().removeprefix(_PREFIX).lower()
        is_address = _OF_KUBERNETES.search(variable) or value.startswith("tcp://")
        if not variable.upper().startswith(_PREFIX) or is_address:
            continue
        if name not in SETTINGS | _OTHERS:
            near = difflib.get_close_matches(name[:_MAX_SHOWN], sorted(SETTINGS), 1)
            hint = f" Did you mean {_PREFIX}{near[0].upper()}?" if near else ""
            found.append(f"{variable[:_MAX_SHOWN]} is no setting, and has no effect.{hint}")
    return found[:_MAX_WARNINGS]
