# A whole daemon that is confined (daemon/confine).
penstock_e2e(confine confine.py TIMEOUT 600)
penstock_e2e(closed_clone closed_clone.py)
