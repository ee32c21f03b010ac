# The batches of streams.
foreach(name same_bytes buckets shapes view_groups checkpoints budgets)
	penstock_e2e(${name} ${name}.py)
endforeach()
