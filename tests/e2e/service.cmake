# penstockd under systemd: what it tells, and what its units say.
penstock_e2e(service service.py TIMEOUT 600)
