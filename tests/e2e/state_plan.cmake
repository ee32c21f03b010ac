# `penstock state`, `penstock plan`, and what replay and bench know of ranks.
if(TARGET penstock)
	penstock_e2e(state_plan state_plan.py)
endif()
