/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Limits the number of open IPv4 and IPv6 sockets of groups, which may be nested.
 *
 * Attached once, to the lab's group. A socket is counted in the group of the process that makes it
 * and in every group above with an entry, up to but excluding the lab's. Room in all of them is
 * checked and taken under one lock, so no attempt sees another before its outcome is known: a group
 * is full only through open sockets. The lock is the outermost group's, so nodes do not wait for
 * each other (except rare pairs that share one).
 *
 * A counted socket carries a mark that says where it was counted, so its end is booked there
 * whichever process ends it. Releases need no lock: they only make room.
 */
#include <netloom/kernel.h>
#include <netloom/sockets.h>

#define ENOMEM 12
#define ENFILE 23
#define LOCKS 256

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The id of the lab's group; set before loading. */
const volatile __u64 nl_sock_lab;

struct lock {
	struct bpf_spin_lock lock;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, __u64);
} nl_sock_limits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, struct nl_sock_group);
} nl_sock_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LOCKS);
	__type(key, __u32);
	__type(value, struct lock);
} nl_sock_locks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct nl_sock_mark);
} nl_sock_marks SEC(".maps");

/* The level of the lab's group, or a negative number outside it. A separate function, so that the
 * verifier checks what follows once and not once per level. */
__noinline int nl_sock_level(void)
{
	for (int level = 0; level < NL_SOCK_LAB_DEPTH; level++)
		if (bpf_get_current_ancestor_cgroup_id(level) == nl_sock_lab)
			return level;
	return -1;
}

/* The entry of a limited group, else `none`: the verifier then sees one kind of pointer and checks
 * what follows once, not once per set of levels that may have entries. */
static __always_inline struct nl_sock_group *entry(__u64 id, struct nl_sock_group *none, __u64 *limit)
{
	const __u64 *most = bpf_map_lookup_elem(&nl_sock_limits, &id);
	struct nl_sock_group *group;

	if (!most)
		return none;
	group = bpf_map_lookup_elem(&nl_sock_counts, &id);
	if (!group)
		return none;
	*limit = *most;
	return group;
}

SEC("cgroup/sock_create")
int nl_sock_create(struct bpf_sock *sk)
{
	struct nl_sock_group *group[NL_SOCK_DEPTH];
	__u64 limit[NL_SOCK_DEPTH];
	struct nl_sock_group *none, *full;
	struct nl_sock_mark *mark;
	struct lock *lock;
	__u64 zero = 0, outermost = 0;
	bool any = false;
	__u32 slot;
	int lab = nl_sock_level();

	if (lab < 0)
		return 1;
	none = bpf_map_lookup_elem(&nl_sock_counts, &zero);
	if (!none)
		return 1;
#pragma unroll
	for (int i = 0; i < NL_SOCK_DEPTH; i++) {
		__u64 id = bpf_get_current_ancestor_cgroup_id(lab + 1 + i);

		if (i == 0)
			outermost = id;
		limit[i] = ~0ULL;
		group[i] = id ? entry(id, none, &limit[i]) : none;
		any |= group[i] != none;
	}
	if (!any)
		return 1;
	slot = outermost % LOCKS;
	/* The verifier allows no helper under a spin lock: everything is looked up before. */
	lock = bpf_map_lookup_elem(&nl_sock_locks, &slot);
	mark = bpf_sk_storage_get(&nl_sock_marks, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!lock || !mark) {
		bpf_set_retval(-ENOMEM);
		return 0;
	}

	full = none;
	bpf_spin_lock(&lock->lock);
#pragma unroll
	for (int i = 0; i < NL_SOCK_DEPTH; i++)
		if (group[i] != none && (__u64)NL_READ(group[i]->open) >= limit[i])
			full = group[i];
	if (full == none) {
#pragma unroll
		for (int i = 0; i < NL_SOCK_DEPTH; i++)
			if (group[i] != none) {
				/* Atomic despite the lock, because releases do not take it. */
				__u64 open = __sync_fetch_and_add(&group[i]->open, 1) + 1;

				if (open > group[i]->peak)
					group[i]->peak = open;
			}
	}
	bpf_spin_unlock(&lock->lock);

	if (full != none) {
		__sync_fetch_and_add(&full->refused, 1);
		bpf_set_retval(-ENFILE);
		return 0;
	}
/* The socket is still unknown to others, so its mark needs no lock. */
#pragma unroll
	for (int i = 0; i < NL_SOCK_DEPTH; i++)
		if (group[i] != none) {
			mark->at[i].group = bpf_get_current_ancestor_cgroup_id(lab + 1 + i);
			mark->at[i].epoch = group[i]->epoch;
		}
	mark->counted = 1;
	return 1;
}

static __always_inline void close_uncounted(void)
{
	int lab = nl_sock_level();

	if (lab < 0)
		return;
	for (int i = 0; i < NL_SOCK_DEPTH; i++) {
		__u64 id = bpf_get_current_ancestor_cgroup_id(lab + 1 + i);
		struct nl_sock_group *group;

		if (!id)
			return;
		group = bpf_map_lookup_elem(&nl_sock_counts, &id);
		if (group)
			__sync_fetch_and_add(&group->uncounted, 1);
	}
}

SEC("cgroup/sock_release")
int nl_sock_release(struct bpf_sock *sk)
{
	struct nl_sock_mark *mark = bpf_sk_storage_get(&nl_sock_marks, sk, NULL, 0);

	if (!mark || !mark->counted) {
		close_uncounted();
		return 1;
	}
	mark->counted = 0;
	for (int i = 0; i < NL_SOCK_DEPTH; i++) {
		__u64 id = mark->at[i].group;
		struct nl_sock_group *group;

		if (!id)
			continue;
		group = bpf_map_lookup_elem(&nl_sock_counts, &id);
		/* Another epoch: counting was restarted, and this socket is not in the new
		 * number. */
		if (group && group->epoch == mark->at[i].epoch)
			__sync_fetch_and_add(&group->open, -1);
	}
	return 1;
}
