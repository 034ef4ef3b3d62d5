"""Who calls, and what they may: bearer tokens, their scopes, and what each route requires."""
