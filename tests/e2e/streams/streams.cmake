# The batches of streams.
foreach(name same_bytes buckets shapes view_groups checkpoints budgets)
	penstock_e2e(${name} ${name}.py)
endforeach()
# Chains of runs that stop and go on.
penstock_e2e(chains chains.py PROMISE streams.chains 1200)
