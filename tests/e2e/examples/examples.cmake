# The example programs, as a user runs them.
penstock_e2e(examples examples.py TIMEOUT 600)
