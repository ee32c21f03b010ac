# What a daemon answers, and to clients that lie.
penstock_e2e(serve serve.py)
