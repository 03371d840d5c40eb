/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Samples: times of packets selected by their hash. Each CPU has its own tables, so nothing is
 * locked. A dynamic table holds exactly the samples whose distance is below its threshold, which
 * falls by the rule of netloom_marking::Samples.
 */
#ifndef NETLOOM_MEASURE_SAMPLES_H
#define NETLOOM_MEASURE_SAMPLES_H

/* Indexed by (CPU * flows + slot) * NL_ME_BANKS + bank. Sizes are set before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct nl_me_table));
} nl_me_samples SEC(".maps");

/* Reverses the bits. */
static __always_inline __u32 turned(__u32 x)
{
	x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
	x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
	x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
	return __builtin_bswap32(x);
}

static __always_inline __u64 distance(__u32 hash)
{
	return turned(hash ^ nl_me_options.match_value);
}

/* The context of a loop over a table's samples. Counters are in the table, where the verifier does
 * not track each of their values: `unkept`, otherwise unused in dynamic tables, and `used`. */
struct walk {
	struct nl_me_table *table;
	__u64 threshold;
};

static long count_below(__u32 i, struct walk *w)
{
	struct nl_me_table *table = w->table;

	if (i > nl_me_options.most)
		return 1;
	table->unkept += distance(table->samples[i].hash) < w->threshold;
	return 0;
}

/* The search for a threshold: too few samples are below `low`, too many below `high`. */
struct search {
	struct nl_me_table *table;
	__u64 low, high;
	bool found;
};

static long keep_below(__u32 i, struct search *s)
{
	struct nl_me_table *table = s->table;
	const struct nl_me_sample *sample;
	__u32 used;

	if (i > nl_me_options.most)
		return 1;
	sample = &table->samples[i];
	used = table->used;
	if (distance(sample->hash) >= s->low || used > nl_me_options.most)
		return 0;
	/* In place: `used` never passes `i`. */
	table->samples[used] = *sample;
	table->used = used + 1;
	return 0;
}

static long halve(__u32 i, struct search *s)
{
	__u64 middle = s->low + (s->high - s->low) / 2;
	struct walk w = { .table = s->table, .threshold = middle };
	__u64 found;

	if (s->high - s->low <= 1)
		return 1;
	w.table->unkept = 0;
	bpf_loop(nl_me_options.most + 1, count_below, &w, 0);
	found = w.table->unkept;
	if (found > nl_me_options.most) {
		s->high = middle;
		return 0;
	}
	s->low = middle;
	/* At least half of the samples stay, so that thresholds fall rarely. */
	s->found = found >= (nl_me_options.most + 1) / 2;
	return s->found;
}

/* Finds the next threshold of a table with one sample too many, and keeps the samples below it. */
__noinline int nl_me_lower(__u32 index)
{
	struct nl_me_table *table = bpf_map_lookup_elem(&nl_me_samples, &index);
	struct search s = { .table = table };

	if (!table)
		return 0;
	s.high = table->threshold;
	/* The threshold has 33 bits. */
	bpf_loop(34, halve, &s, 0);
	if (!s.found)
		table->crowded = 1;
	table->threshold = s.low;
	table->unkept = 0;
	table->used = 0;
	bpf_loop(nl_me_options.most + 1, keep_below, &s, 0);
	return 0;
}

static __always_inline void keep(__u32 index, __u64 block, const struct nl_me_sample *sample)
{
	struct nl_me_table *table = bpf_map_lookup_elem(&nl_me_samples, &index);
	__u32 used;

	if (!table)
		return;
	if (table->block != block) {
		table->block = block;
		table->threshold = nl_me_options.threshold;
		table->used = 0;
		table->crowded = 0;
		table->unkept = 0;
	}
	if (nl_me_options.dynamic && distance(sample->hash) >= table->threshold)
		return;
	used = table->used;
	/* A dynamic table has one place more, whose filling lowers the threshold. */
	if (used >= nl_me_options.most + nl_me_options.dynamic) {
		table->unkept++;
		return;
	}
	table->samples[used] = *sample;
	table->used = used + 1;
	if (nl_me_options.dynamic && used == nl_me_options.most)
		nl_me_lower(index);
}

#endif
