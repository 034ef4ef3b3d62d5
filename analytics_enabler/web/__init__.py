"""The enabler for browsers: sessions in place of tokens, and the pages of other packages."""
