# Private daemons of jobs.
penstock_e2e(jobs jobs.py)
