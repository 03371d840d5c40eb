/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The result for a key: by the masks in use. If there are more than a few, what was found last by one of the others
 * is tried before them: a hint for the whole key, which each CPU notes for itself.
 *
 * A mask's words of the key are hashed to a bucket, whose entries tell parts of hashes and slots. Whatever leads to
 * a slot, its result counts only if it is of this generation and all its words equal the key's. So entries and hints
 * may be old or wrong; a frame is then a miss at worst. User space alone writes buckets and results, and waits for the
 * programs that run before it uses a slot again. One line of the cache is read for a bucket, one or two for a result.
 */
#ifndef NETLOOM_FLOW_FIND_H
#define NETLOOM_FLOW_FIND_H

#include "work.bpf.h"

/* Hints of a CPU: a power of two. */
#define HINTS 4096
/* Masks that are tried before hints. */
#define FIRST_MASKS 2

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nl_fl_table);
} nl_fl_table SEC(".maps");

/* Slots by CPU, and of a CPU by hash. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HINTS);
	__type(key, __u32);
	__type(value, __u32);
} nl_fl_hints SEC(".maps");

/* The first chunk, and the others, which are maps that user space makes when it needs them. */
#define CHUNKED(name, type_of, chunks)                   \
	struct {                                         \
		__uint(type, BPF_MAP_TYPE_ARRAY);        \
		__uint(map_flags, BPF_F_MMAPABLE);       \
		__uint(max_entries, 1);                  \
		__type(key, __u32);                      \
		__type(value, struct type_of);           \
	} name SEC(".maps");                             \
	struct {                                         \
		__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS); \
		__uint(max_entries, chunks);             \
		__type(key, __u32);                      \
		__type(value, __u32);                    \
	} name##_x SEC(".maps")

CHUNKED(nl_fl_results, nl_fl_result, NL_FL_CHUNKS);
/* Others are in one half of the chunks or in the other: while they are moved, programs use the old ones. */
CHUNKED(nl_fl_buckets, nl_fl_bucket, 2 * NL_FL_CHUNKS);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nl_fl_cpu);
} nl_fl_cpus SEC(".maps");

static __always_inline void *in_chunk(void *chunks, __u32 chunk, __u32 place)
{
	void *map = bpf_map_lookup_elem(chunks, &chunk);

	return map ? bpf_map_lookup_elem(map, &place) : 0;
}

static __always_inline const struct nl_fl_result *result_at(__u32 slot)
{
	const struct nl_fl_result *result;

	if (slot < NL_FL_CHUNK) {
		result = bpf_map_lookup_elem(&nl_fl_results, &slot);
		NL_APART();
		return result;
	}
	return in_chunk(&nl_fl_results_x, slot / NL_FL_CHUNK, slot % NL_FL_CHUNK);
}

static __always_inline const struct nl_fl_bucket *bucket_at(__u64 buckets, __u32 hash)
{
	/* Base and size are one word: no run pairs the mask of one index with the chunks of
	 * another. */
	__u32 place = hash & (__u32)(buckets >> 32), first = buckets;
	const struct nl_fl_bucket *bucket;

	if (!first) {
		bucket = bpf_map_lookup_elem(&nl_fl_buckets, &place);
		NL_APART();
		return bucket;
	}
	return in_chunk(&nl_fl_buckets_x, first - 1 + place / NL_FL_BUCKETS, place % NL_FL_BUCKETS);
}

/* Adds a word to a hash; products do not wait for each other. Equal to src/flow/index.rs. */
#define ADD(sum, word, odd)                        \
	do {                                       \
		__u64 add = word;                  \
						   \
		sum += (add ^ add >> 32) * odd;    \
		odd = odd * 0xd1342543de82ef95ULL + 2; \
	} while (0)

static __always_inline __u64 mixed(__u64 sum)
{
	sum = (sum ^ sum >> 32) * 0x9fb21c651e98df25ULL;
	return sum ^ sum >> 29;
}

/* The entry with this part of a hash, 0 if there is none; no branches, whose outcome nobody can foretell. */
static __always_inline __u64 entry_of(const struct nl_fl_bucket *bucket, __u32 tag)
{
	__u64 found = 0;

#pragma unroll
	for (int i = 0; i < NL_FL_WAYS; i++) {
		__u64 entry = NL_READ(bucket->entries[i]);
		__u64 other = entry >> 32 ^ tag;

		/* All bits if there is no other one. */
		found |= entry & -((other - 1) >> 63);
	}
	return found;
}

/* Whether a result counts, before anything else of it is read. */
static __always_inline bool is_live(const struct nl_fl_result *result, __u64 live, struct nl_fl_work *w)
{
	if (NL_READ(result->live) != live)
		return false;
	/* The words must not be read before `live`. An atomic that returns the old value is a
	 * full barrier in BPF; x86 keeps loads in order by itself. */
	if (nl_fl_options.weak) {
		__u64 before = __sync_fetch_and_add(&w->fence, 1);

		/* If nobody uses the old value, clang emits the variant without it, which orders
		 * nothing. */
		NL_OPAQUE(before);
	}
	return true;
}

static __always_inline void take(struct nl_fl_work *w, const struct nl_fl_result *result)
{
	w->first = result->first;
	w->flags = result->flags;
	w->least = result->ttl;
}

/* By a mask: the result's slot, or NL_FL_NONE. Verified separately. */
__noinline __u32 nl_fl_by_mask(struct nl_fl_work *w, __u32 number, __u64 live)
{
	const struct nl_fl_result *result;
	const struct nl_fl_bucket *bucket;
	const struct nl_fl_mask *mask;
	struct nl_fl_table *table;
	__u64 buckets, sum, odd = 0x9e3779b97f4a7c15ULL, found, differ = 0;
	__u32 zero = 0, slot;

	if (!w)
		return NL_FL_NONE;
	table = bpf_map_lookup_elem(&nl_fl_table, &zero);
	if (!table)
		return NL_FL_NONE;
	/* For the verifier, which must see the bound here. */
	number %= NL_FL_MASKS;
	mask = &table->mask[number];
	/* With the number, because equal words under two masks are different results. */
	sum = table->seed + number;
#pragma unroll
	for (int i = 0; i < NL_FL_COMPARED; i++) {
		__u32 word;

		if (i >= mask->count)
			break;
		word = mask->words[i] % NL_FL_WORDS;
		w->masked[i] = w->key[word] & mask->bits[word];
		ADD(sum, w->masked[i], odd);
	}
	sum = mixed(sum);
	buckets = NL_READ(table->buckets);
	bucket = bucket_at(buckets, sum);
	if (!bucket)
		return NL_FL_NONE;
	/* The tag's lowest bit is set, because a tag of 0 would look like a free place. */
	found = entry_of(bucket, sum >> 32 | 1);
	if (!found && NL_READ(bucket->beyond)) {
		bucket = bucket_at(buckets, sum >> 16);
		if (!bucket)
			return NL_FL_NONE;
		found = entry_of(bucket, sum >> 32 | 1);
	}
	slot = found;
	result = found ? result_at(slot) : 0;
	/* The slot may since have become a result of another mask. */
	if (!result || !is_live(result, live, w) || result->mask != number)
		return NL_FL_NONE;
#pragma unroll
	for (int i = 0; i < NL_FL_COMPARED; i++) {
		if (i >= mask->count)
			break;
		differ |= w->masked[i] ^ result->words[i];
	}
	/* The index holds only 31 bits of the hash; the words decide. */
	if (differ)
		return NL_FL_NONE;
	take(w, result);
	return slot;
}

/* Whether a hint is right: its slot, or NL_FL_NONE. Verified separately. */
__noinline __u32 nl_fl_by_hint(struct nl_fl_work *w, __u32 slot, __u64 live)
{
	const struct nl_fl_result *result;
	const struct nl_fl_mask *mask;
	struct nl_fl_table *table;
	__u64 differ = 0;
	__u32 zero = 0;

	if (!w)
		return NL_FL_NONE;
	table = bpf_map_lookup_elem(&nl_fl_table, &zero);
	result = result_at(slot);
	if (!table || !result || !is_live(result, live, w))
		return NL_FL_NONE;
	mask = &table->mask[result->mask % NL_FL_MASKS];
#pragma unroll
	for (int i = 0; i < NL_FL_COMPARED; i++) {
		__u32 word;

		if (i >= mask->count)
			break;
		word = mask->words[i] % NL_FL_WORDS;
		differ |= (w->key[word] & mask->bits[word]) ^ result->words[i];
	}
	if (differ)
		return NL_FL_NONE;
	take(w, result);
	return slot;
}

static __always_inline __u32 hint_place(const struct nl_fl_work *w, __u32 cpu)
{
	__u64 sum = 0, odd = 0x9e3779b97f4a7c15ULL;

/* Without the seed: keys that collide cost each other a hint, never a result. */
#pragma unroll
	for (int i = 0; i < NL_FL_WORDS; i++)
		ADD(sum, w->key[i], odd);
	return cpu * HINTS + (sum >> 40) % HINTS;
}

/* By the mask at this place of the order; counts it when it finds a result. */
static __always_inline __u32 find_at(struct nl_fl_work *w, struct nl_fl_cpu *cpu,
				     struct nl_fl_table *table, __u32 place, __u64 live)
{
	/* User space may reorder masks meanwhile. A mask tried twice or not at all is a miss at
	 * worst. */
	__u32 mask = NL_READ(table->order[place]) % NL_FL_MASKS;
	__u32 slot = nl_fl_by_mask(w, mask, live);

	if (slot == NL_FL_NONE)
		return NL_FL_NONE;
	cpu->masked++;
	cpu->hits[mask]++;
	return slot;
}

/* By a hint, then by all but the first masks; notes a hint. */
static __always_inline __u32 find_by_more(struct nl_fl_work *w, struct nl_fl_cpu *cpu,
					  struct nl_fl_table *table, __u32 number, __u64 live)
{
	__u32 place = hint_place(w, number), slot;
	__u32 *hint = bpf_map_lookup_elem(&nl_fl_hints, &place);

	if (!hint)
		return NL_FL_NONE;
	slot = nl_fl_by_hint(w, *hint, live);
	if (slot != NL_FL_NONE) {
		cpu->exact++;
		return slot;
	}
	for (__u32 i = FIRST_MASKS; i < NL_FL_MASKS; i++) {
		if (i >= NL_READ(table->masks))
			break;
		slot = find_at(w, cpu, table, i, live);
		if (slot == NL_FL_NONE)
			continue;
		*hint = slot;
		return slot;
	}
	return NL_FL_NONE;
}

/* The result's slot, or NL_FL_NONE. The first masks are written out: clang 19 does not unroll a loop over them. */
static __always_inline __u32 find(struct nl_fl_work *w, struct nl_fl_cpu *cpu, __u32 number)
{
	__u32 zero = 0, masks, slot = NL_FL_NONE;
	struct nl_fl_table *table = bpf_map_lookup_elem(&nl_fl_table, &zero);
	__u64 live;

	_Static_assert(FIRST_MASKS == 2, "the first masks are written out");
	if (!table)
		return NL_FL_NONE;
	live = NL_READ(table->generation) + 1;
	masks = NL_READ(table->masks);
	if (masks > 0)
		slot = find_at(w, cpu, table, 0, live);
	if (slot == NL_FL_NONE && masks > 1)
		slot = find_at(w, cpu, table, 1, live);
	if (slot == NL_FL_NONE && masks > FIRST_MASKS)
		slot = find_by_more(w, cpu, table, number, live);
	return slot;
}

#endif
