"""The fork server, from which all Python processes of Spark are forked.

Spark starts a Python interpreter for each kind of task and for each source of a query. An
interpreter needs 0.8 s of CPU time and 90 MB to load its modules; a fork of a process that has
loaded them needs neither. So Spark starts the launcher instead of Python. The launcher sends its
arguments, environment, folder and standard streams to the fork server, whose fork runs the module.
"""
