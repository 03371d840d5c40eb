/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The flow of a packet: a cache of whole keys over the tables of netloom_marking::tables. A cache
 * entry equals the result of a search, or has another generation and is searched again; so a full
 * cache costs only time.
 */
#ifndef NETLOOM_MEASURE_FILTER_H
#define NETLOOM_MEASURE_FILTER_H

/* Sizes are set before loading. Entries are allocated as flows appear: most points see few. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct nl_me_v4);
	__type(value, __u64);
} nl_me_cache4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct nl_me_key);
	__type(value, __u64);
} nl_me_cache6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nl_me_nears6);
} nl_me_near6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct nl_me_filter);
	__type(value, __u64);
} nl_me_filters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * NL_ME_MASKS);
	__type(key, __u32);
	__type(value, struct nl_me_mask);
} nl_me_masks SEC(".maps");

/* A separate map of one word: see netloom/measure.h. */
__u64 nl_me_active SEC(".data.active");

/* Searches the tables; slot + 1, or 0. Verified separately, once. */
__noinline __u32 nl_me_search(const struct nl_me_key *key, __u64 active)
{
	__u32 set = ((__u32)active >> 8 & 1) * NL_ME_MASKS, masks = active & 0xff;
	__u32 best = ~0u, found = 0;
	struct nl_me_filter at;

	if (!key)
		return 0;
	for (__u32 i = 0; i < NL_ME_MASKS; i++) {
		__u32 index = set + i;
		struct nl_me_mask *mask;
		__u64 *entry;

		if (i >= masks)
			break;
		mask = bpf_map_lookup_elem(&nl_me_masks, &index);
		/* Masks are in order of their best rank: no later one can win. */
		if (!mask || best <= mask->best)
			break;
		at.mask = index;
#pragma unroll
		for (int word = 0; word < 10; word++)
			((__u32 *)&at.key)[word] =
				((const __u32 *)key)[word] & ((__u32 *)&mask->bits)[word];
		entry = bpf_map_lookup_elem(&nl_me_filters, &at);
		if (entry && (__u32)*entry < best) {
			best = *entry;
			found = (*entry >> 32) + 1;
		}
	}
	return found;
}

/* Stores a search result in a cache entry, or in a new one. */
#define REMEMBER(map, key, entry, value, cpu)                                     \
	do {                                                                      \
		if (entry)                                                        \
			NL_WRITE(*(entry), value);                                \
		else if (bpf_map_update_elem(map, key, &(value), BPF_ANY))        \
			(cpu)->overflow++;                                        \
	} while (0)

static __noinline __u32 search_v4(const struct nl_me_v4 *v4, __u64 *entry, struct nl_me_cpu *cpu,
				  __u64 active)
{
	struct nl_me_key key = {
		.family = 4,
		.protocol = v4->kind,
		.has_ports = v4->kind >> 8,
		.ports = v4->ports,
		.src = { v4->src },
		.dst = { v4->dst },
	};
	__u32 slot = nl_me_search(&key, active);
	__u64 value = active >> 32 << 32 | slot;

	cpu->searched++;
	REMEMBER(&nl_me_cache4, v4, entry, value, cpu);
	return slot;
}

static __noinline __u32 search_v6(const struct nl_me_key *key, __u64 *entry, struct nl_me_cpu *cpu,
				  __u64 active)
{
	__u32 slot = nl_me_search(key, active);
	__u64 value = active >> 32 << 32 | slot;

	cpu->searched++;
	REMEMBER(&nl_me_cache6, key, entry, value, cpu);
	return slot;
}

static __noinline __u32 classify_v6(const struct nl_me_key *key, struct nl_me_cpu *cpu,
				    __u64 active)
{
	__u64 *entry = bpf_map_lookup_elem(&nl_me_cache6, key), value;

	if (entry) {
		value = NL_READ(*entry);
		if (value >> 32 == active >> 32)
			return value;
	}
	return search_v6(key, entry, cpu, active);
}

static __noinline __u32 classify_v4(const struct nl_me_v4 *key, struct nl_me_cpu *cpu,
				    __u64 active)
{
	__u64 *entry = bpf_map_lookup_elem(&nl_me_cache4, key), value;

	if (entry) {
		value = NL_READ(*entry);
		if (value >> 32 == active >> 32)
			return value;
	}
	return search_v4(key, entry, cpu, active);
}

/* A key's entry in the near cache. */
static __always_inline struct nl_me_near *near(const word *key, struct nl_me_cpu *cpu)
{
	__u64 a;

	a = (key[0] ^ key[1] * 0x9e3779b97f4a7c15ULL) * 0xff51afd7ed558ccdULL;
	/* The top bits of a product depend on all bits of the factors. */
	return &cpu->near[a >> 55 & (NL_ME_NEAR - 1)];
}

static __always_inline struct nl_me_near6 *near_v6(const __u64 *key)
{
	struct nl_me_nears6 *all;
	__u32 zero = 0;
	__u64 a, b;

	all = bpf_map_lookup_elem(&nl_me_near6, &zero);
	if (!all)
		return NULL;
	a = (key[0] ^ key[1]) + key[3] * 0x9e3779b97f4a7c15ULL;
	b = key[2] + key[4] * 0xc2b2ae3d27d4eb4fULL;
	a = (a ^ b >> 29 ^ b) * 0xff51afd7ed558ccdULL;
	return &all->at[a >> 56 & (NL_ME_NEAR6 - 1)];
}

/* The same for IPv6. */
static __always_inline __u32 classify_near_v6(struct packet *p, struct nl_me_cpu *cpu, __u64 active)
{
	const __u64 *key = key_words(&p->key);
	struct nl_me_near6 *at = near_v6(key);
	__u64 *there;
	__u32 slot;

	if (!at)
		return 0;
	there = key_words(&at->key);
	if (at->value >> 32 == active >> 32 &&
	    !((there[0] ^ key[0]) | (there[1] ^ key[1]) | (there[2] ^ key[2]) |
	      (there[3] ^ key[3]) | (there[4] ^ key[4])))
		return at->value;
	slot = classify_v6(&p->key, cpu, active);
#pragma unroll
	for (int word = 0; word < 5; word++)
		there[word] = key[word];
	at->value = active >> 32 << 32 | slot;
	return slot;
}

/* The slot of the packet's flow + 1, or 0. This CPU's recent flows are in the near cache. */
static __always_inline __u32 classify(struct packet *p, struct nl_me_cpu *cpu)
{
	__u64 active = NL_READ(nl_me_active);
	struct nl_me_near *at;
	word *key, *there;
	__u32 slot;

	if (p->v6)
		return classify_near_v6(p, cpu, active);
	key = v4_words(&p->v4);
	at = near(key, cpu);
	there = v4_words(&at->key);
	if (at->value >> 32 == active >> 32 && !((there[0] ^ key[0]) | (there[1] ^ key[1])))
		return at->value;
	slot = classify_v4(&p->v4, cpu, active);
	at->key = p->v4;
	at->value = active >> 32 << 32 | slot;
	return slot;
}

#endif
