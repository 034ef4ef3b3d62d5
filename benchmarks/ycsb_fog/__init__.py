"""The specification's experiment (section 3.2.3): YCSB on an emulated fog, Mistbow and Redis."""
