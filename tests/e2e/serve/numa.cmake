# Threads and streams on the nodes of a made-up topology (daemon/base/host/numa.h).
penstock_e2e(numa numa.py)
