# penstockd under systemd: what it reports, and what its units contain.
penstock_e2e(service service.py TIMEOUT 600)
