/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The result for a key: first by the whole key, in a small table that each CPU fills for itself, then by the masks
 * in use. A result counts if its slot still has the serial number that it was found with, and is of this generation;
 * so whatever was noted of it before ends at once.
 */
#ifndef NETLOOM_FLOW_FIND_H
#define NETLOOM_FLOW_FIND_H

#include "work.bpf.h"

/* Whole keys that a CPU knows: a power of two. */
#define EXACT 1024

struct exact {
	__u64 key[NL_FL_WORDS];
	__u64 serial;
	__u32 slot;
	__u32 zero;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nl_fl_table);
} nl_fl_table SEC(".maps");

/* By CPU, and of a CPU by hash. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, EXACT);
	__type(key, __u32);
	__type(value, struct exact);
} nl_fl_exact SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct nl_fl_masked);
	__type(value, struct nl_fl_flow);
} nl_fl_flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nl_fl_slot);
} nl_fl_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nl_fl_cpu);
} nl_fl_cpus SEC(".maps");

/* Each word times a number of its own, so that the products do not wait for each other. */
static __always_inline __u32 exact_place(const struct nl_fl_work *w, __u32 cpu)
{
	__u64 sum = 0, odd = 0x9e3779b97f4a7c15ULL;

#pragma unroll
	for (int i = 0; i < NL_FL_WORDS; i++) {
		sum += (w->key[i] ^ w->key[i] >> 32) * odd;
		odd = odd * 0xd1342543de82ef95ULL + 2;
	}
	return cpu * EXACT + (sum >> 40) % EXACT;
}

static __always_inline bool same_key(const __u64 *a, const __u64 *b)
{
	__u64 differ = 0;

#pragma unroll
	for (int i = 0; i < NL_FL_WORDS; i++)
		differ |= a[i] ^ b[i];
	return !differ;
}

static __always_inline bool counts(__u32 slot, __u64 serial, __u64 generation)
{
	struct nl_fl_slot *s = bpf_map_lookup_elem(&nl_fl_slots, &slot);

	return s && serial && NL_READ(s->serial) == serial && s->generation == generation;
}

/* By the masks; the result's slot, or NL_FL_NONE. */
__noinline __u32 nl_fl_search(struct nl_fl_work *w, struct nl_fl_cpu *cpu, __u64 generation,
			      struct exact *known)
{
	struct nl_fl_table *table;
	struct nl_fl_flow *flow;
	__u32 zero = 0;

	if (!w || !cpu || !known)
		return NL_FL_NONE;
	table = bpf_map_lookup_elem(&nl_fl_table, &zero);
	if (!table)
		return NL_FL_NONE;
	for (__u32 i = 0; i < NL_FL_MASKS; i++) {
		const __u64 *mask;
		__u32 number;

		if (i >= NL_READ(table->masks))
			break;
		number = NL_READ(table->order[i]) % NL_FL_MASKS;
		mask = table->mask[number];
		w->masked.mask = number;
#pragma unroll
		for (int j = 0; j < NL_FL_WORDS; j++)
			w->masked.words[j] = w->key[j] & mask[j];
		flow = bpf_map_lookup_elem(&nl_fl_flows, &w->masked);
		if (!flow || !counts(flow->slot, flow->serial, generation))
			continue;
		cpu->masked++;
		cpu->hits[number]++;
		__builtin_memcpy(known->key, w->key, sizeof(known->key));
		known->serial = flow->serial;
		known->slot = flow->slot;
		return known->slot;
	}
	return NL_FL_NONE;
}

/* The result's slot, or NL_FL_NONE. */
static __always_inline __u32 find(struct nl_fl_work *w, struct nl_fl_cpu *cpu, __u32 number)
{
	__u32 zero = 0, place = exact_place(w, number);
	struct nl_fl_table *table = bpf_map_lookup_elem(&nl_fl_table, &zero);
	struct exact *known = bpf_map_lookup_elem(&nl_fl_exact, &place);
	__u64 generation;

	if (!table || !known)
		return NL_FL_NONE;
	generation = NL_READ(table->generation);
	if (same_key(known->key, w->key) && counts(known->slot, known->serial, generation)) {
		cpu->exact++;
		return known->slot;
	}
	return nl_fl_search(w, cpu, generation, known);
}

#endif
