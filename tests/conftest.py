from hypothesis import settings

# How long an example takes says more of the machine's other work than of the code.
settings.register_profile("mistbow", deadline=None)
settings.load_profile("mistbow")
