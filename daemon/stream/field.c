/* field: see field.h. */
#include "stream/field.h"

#include "fetch/fetch.h"

#include <stdio.h>
#include <string.h>

int field_judge(const struct field *field, int result, bool longer)
{
	if (result == FETCH_E_FIELD_MISSING && field->empty)
		return FETCH_OK;
	return result == FETCH_OK && longer && !field->cut ? FETCH_E_FIELD_LONG : result;
}

int field_fault(const struct dataset *dataset, uint64_t sample, const struct field *field,
	int result, struct fault *fault)
{
	char path[4096];
	if (dataset_path(dataset, sample, path, sizeof path, NULL) < 0)
		(void)snprintf(path, sizeof path, "it");
	switch (result) {
	case FETCH_E_FIELD_MISSING:
		return fault_set(fault, result,
			"%s has no .%s beside it; add it, or set missing: empty for the field "
			"%s",
			path, field->name, field->name);
	case FETCH_E_FIELD_LONG:
		return fault_set(fault, result,
			"the .%s beside %s has more than %u bytes; raise max of the field %s, or "
			"set long: cut",
			field->name, path, field->max, field->name);
	case FETCH_E_CHANGED:
		return fault_set(fault, result,
			"the .%s beside %s is not a file, or does not stop changing", field->name,
			path);
	case FETCH_E_SHORT:
		return fault_set(fault, result,
			"the .%s beside %s ends before the size that was indexed", field->name,
			path);
	case FETCH_E_UNPACK: {
		/* The sentence of unpacking says what is wrong. */
		return fault_prefix(fault, result, "the field %s of %s", field->name, path);
	}
	case FETCH_E_IO:
		return fault_set(fault, result,
			"the storage cannot read the .%s beside %s: see the kernel's log",
			field->name, path);
	default:
		return fault_set(fault, result, "the .%s beside %s cannot be read: %s", field->name,
			path, strerror(-result));
	}
}

int field_read(const struct dataset *dataset, uint64_t sample, const struct field_list *list,
	uint32_t number, void *buffer, uint32_t *ret_size, struct fault *fault)
{
	const struct field *field = &list->at[number];
	uint32_t size = 0;
	bool longer = false;
	int rc = dataset_field_read(dataset, sample, list, number, buffer, &size, &longer, fault);
	enum fetch_outcome outcome = fetch_outcome_of(rc);
	int result = rc == DATASET_E_NONE ? FETCH_E_FIELD_MISSING : outcome ? (int)outcome : rc;
	result = field_judge(field, result, longer);
	if (result == FETCH_OK)
		*ret_size = rc == DATASET_E_NONE ? 0 : size;
	else if (rc == DATASET_E_NONE || rc == 0)
		(void)field_fault(dataset, sample, field, result, fault);
	return result;
}
