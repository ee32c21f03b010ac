# A whole daemon that is bound (daemon/confine).
penstock_e2e(confine confine.py TIMEOUT 600)
