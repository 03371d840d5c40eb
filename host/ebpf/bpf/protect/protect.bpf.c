/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Drops frames to a node beyond its budget, fairly between its senders.
 *
 * The rule. A node has a budget of frames and one of bytes a second, shared by all its interfaces.
 * A frame costs one frame, however many segments it will become, and its length. Each sender has a
 * share: the budget divided by the number of senders in this or the last window (about a second),
 * whichever is larger. A frame passes
 * - if its sender's share has room: it is then charged to the share and to the whole, or
 * - if the whole budget has room: it is then charged to the whole alone.
 * So a sender within its share always passes, unclaimed budget is available to all, and together
 * all get the budget and no more, except for the burst. Both frames and bytes must have room.
 *
 * Beside that, each sender may have ten frames a second with which neighbours are found (ARP, neighbour solicitations and
 * advertisements). Without the answer of a sender beyond its share, what the node has for that sender would wait
 * in the node, in the buffer of a socket that serves others as well.
 *
 * Buckets fill in steps of at most four milliseconds, shorter than their bursts. Under a flood the
 * frames of a step then pass in a row, and the node receives them together: frames passed singly
 * would each wake the receiver, at several times the cost of receiving it.
 *
 * On a switch's port, a sender beyond its share does not cost the node receive work for the frames that pass,
 * either: a copy without an owning socket is sent in the frame's place. A veth end queues for its own thread
 * only frames that a socket still owns, so the copy is received on the sender's CPU time. If nothing of a
 * sender was dropped in this or the last window, its frames are received on the node's own time.
 *
 * A switch's other ports look ahead: a frame that the budget of the node it is addressed to would not let
 * pass is dropped where it enters the switch, before the switch forwards it. That costs the sender half
 * as much, and nothing is charged there: what goes on is charged where it leaves toward the node.
 *
 * Where no interface identifies a sender (at a node's own interface, behind a process that switches), the
 * last four bytes of the frame's source address do. They do so for all frames at a port that a process and the kernel
 * forward to, since a sender whose frames take both ways has one share.
 *
 * Several CPUs at once may each pass one frame on the same room; all are charged, so the rate
 * holds. A dropped frame reads the buckets and writes only its sender's counters. When the budget
 * changes, a debt under the old one is cut to the new one's burst. Senders that find no entry left
 * share one. Frames that come back from a wire were charged before they entered it.
 */
#include <netloom/kernel.h>
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>
#include <netloom/bucket.h>
#include <netloom/protect.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct nl_pr_port);
} nl_pr_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct nl_pr_rate);
} nl_pr_rates SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct nl_pr_state);
} nl_pr_state SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct nl_pr_pair);
	__type(value, struct nl_pr_sender);
} nl_pr_senders SEC(".maps");

/* Ports that look ahead, and the switch that each belongs to. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct nl_pr_gate);
} nl_pr_gates SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct nl_pr_address);
	__type(value, struct nl_pr_owner);
} nl_pr_owners SEC(".maps");

/* Node and sender -> when its frames for finding neighbours are all available again, in ns. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct nl_pr_pair);
	__type(value, __u64);
} nl_pr_finding SEC(".maps");

static __always_inline struct nl_pr_sender *sender_of(__u32 node, __u32 sender)
{
	struct nl_pr_pair pair = { .node = node, .sender = sender };
	struct nl_pr_sender *found = bpf_map_lookup_elem(&nl_pr_senders, &pair);
	struct nl_pr_sender fresh = {};

	if (found)
		return found;
	/* If two race, the first makes the entry, and both use it. */
	bpf_map_update_elem(&nl_pr_senders, &pair, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&nl_pr_senders, &pair);
}

static __always_inline __u64 window_of(__u64 now_ns)
{
	/* 0 means never. */
	return (now_ns >> NL_PR_WINDOW_BITS) + 1;
}

/* The number of senders that share the budget now, including this one, which it records. */
static __always_inline __u64 sharers(struct nl_pr_state *state, struct nl_pr_sender *sender,
				     __u64 now_ns)
{
	__u64 window = window_of(now_ns);
	__u64 seen = NL_READ(state->window);
	__u64 count, before;

	if (seen != window && __sync_val_compare_and_swap(&state->window, seen, window) == seen) {
		count = __sync_lock_test_and_set(&state->senders, 0);
		/* After a gap of a whole window nobody has sent lately. */
		state->senders_before = seen + 1 == window ? count : 0;
	}
	seen = NL_READ(sender->window);
	/* The exchange counts a sender once, though several CPUs may handle its frames. */
	if (seen != window && __sync_val_compare_and_swap(&sender->window, seen, window) == seen)
		__sync_fetch_and_add(&state->senders, 1);
	count = NL_READ(state->senders);
	before = NL_READ(state->senders_before);
	if (count < before)
		count = before;
	return count ? count : 1;
}

struct cost {
	__u64 packets;
	__u64 bytes;
	/* Into how many the budget is divided: a share fills that much slower, and holds the same burst. */
	__u64 parts;
};

/* Limits the debt under an older budget. */
static __always_inline void renew(struct nl_pr_buckets *own, const struct nl_pr_rate *rate, __u64 now)
{
	__u64 old = NL_READ(own->version);

	if (old == rate->version ||
	    __sync_val_compare_and_swap(&own->version, old, rate->version) != old)
		return;
	nl_bucket_cut(&own->packets, now, rate->packet_burst);
	nl_bucket_cut(&own->bytes, now, rate->byte_burst);
}

/* Takes the cost if both buckets have room. If both are limited, the second is charged without
 * looking again: another CPU may have taken the room, and the debt is paid later. */
static __always_inline bool take(struct nl_pr_buckets *own, const struct nl_pr_rate *rate, __u64 now,
				 const struct cost *cost)
{
	__u64 packet_burst = rate->packet_burst * cost->parts;
	__u64 byte_burst = rate->byte_burst * cost->parts;

	renew(own, rate, now);
	if (rate->byte && !nl_bucket_room(&own->bytes, now, byte_burst, cost->bytes))
		return false;
	if (rate->packet &&
	    !nl_bucket_take(&own->packets, now, packet_burst, cost->packets, true))
		return false;
	return !rate->byte ||
	       nl_bucket_take(&own->bytes, now, byte_burst, cost->bytes, rate->packet == 0);
}

static __always_inline void charge(struct nl_pr_buckets *own, const struct nl_pr_rate *rate, __u64 now,
				   const struct cost *cost)
{
	renew(own, rate, now);
	if (rate->packet)
		nl_bucket_take(&own->packets, now, 0, cost->packets, false);
	if (rate->byte)
		nl_bucket_take(&own->bytes, now, 0, cost->bytes, false);
}

/* What a frame costs now, in the buckets' time. */
struct price {
	__u64 now;
	/* Of the whole budget, and of its sender's share. */
	struct cost whole, share;
};

static __always_inline struct price price_of(struct nl_pr_state *state, struct nl_pr_sender *sender,
					     const struct nl_pr_rate *rate, __u64 bytes, __u64 now_ns)
{
	const __u64 half = 1ULL << (NL_PR_COST_BITS - 1);
	/* Buckets fill in steps: see above. */
	__u64 step = rate->step_bits & 31;
	__u64 count = sharers(state, sender, now_ns);
	struct price price = { .now = (now_ns >> step) << (step + NL_PR_TICK_BITS) };

	/* Rounded, because always rounding down would raise the rate. */
	price.whole.packets = (rate->packet + half) >> NL_PR_COST_BITS;
	price.whole.bytes = (rate->byte * bytes + half) >> NL_PR_COST_BITS;
	price.whole.parts = 1;
	price.share.packets = price.whole.packets * count;
	price.share.bytes = price.whole.bytes * count;
	price.share.parts = count;
	return price;
}

static __always_inline bool passes(struct nl_pr_state *state, struct nl_pr_sender *sender,
				   const struct nl_pr_rate *rate, __u64 bytes, __u64 now_ns)
{
	struct price price = price_of(state, sender, rate, bytes, now_ns);

	if (take(&sender->buckets, rate, price.now, &price.share)) {
		charge(&state->buckets, rate, price.now, &price.whole);
		return true;
	}
	return take(&state->buckets, rate, price.now, &price.whole);
}

/* Whether a frame would pass now; nothing is charged. */
static __always_inline bool has_room(const struct nl_pr_buckets *own, const struct nl_pr_rate *rate,
				     __u64 now, const struct cost *cost)
{
	/* A debt under another budget is not for here. */
	if (NL_READ(own->version) != rate->version)
		return true;
	if (rate->byte &&
	    !nl_bucket_room(&own->bytes, now, rate->byte_burst * cost->parts, cost->bytes))
		return false;
	return !rate->packet ||
	       nl_bucket_room(&own->packets, now, rate->packet_burst * cost->parts, cost->packets);
}

static __always_inline bool would_pass(struct nl_pr_state *state, struct nl_pr_sender *sender,
				       const struct nl_pr_rate *rate, __u64 bytes, __u64 now_ns)
{
	struct price price = price_of(state, sender, rate, bytes, now_ns);

	return has_room(&sender->buckets, rate, price.now, &price.share) ||
	       has_room(&state->buckets, rate, price.now, &price.whole);
}

/* Whether a frame is for finding a neighbour. */
static __always_inline bool is_finding(struct __sk_buff *skb)
{
	const __u32 ipv6 = sizeof(struct ethhdr);
	__u8 next = 0, type = 0;

	if (skb->protocol == bpf_htons(ETH_P_ARP))
		return true;
	if (skb->protocol != bpf_htons(ETH_P_IPV6) || bpf_skb_load_bytes(skb, ipv6 + 6, &next, 1) ||
	    next != NL_PR_ICMPV6 || bpf_skb_load_bytes(skb, ipv6 + 40, &type, 1))
		return false;
	return type == NL_PR_SOLICITATION || type == NL_PR_ADVERTISEMENT;
}

/* Whether a frame beyond the budget passes because it finds a neighbour; with `take`, it is charged. */
static __always_inline bool finds(struct __sk_buff *skb, __u32 node, __u32 sender, __u64 now, bool take)
{
	struct nl_pr_pair pair = { .node = node, .sender = sender };
	__u64 fresh = 0, *full_at;

	if (!is_finding(skb))
		return false;
	full_at = bpf_map_lookup_elem(&nl_pr_finding, &pair);
	if (!full_at) {
		bpf_map_update_elem(&nl_pr_finding, &pair, &fresh, BPF_NOEXIST);
		full_at = bpf_map_lookup_elem(&nl_pr_finding, &pair);
		if (!full_at)
			return false;
	}
	if (!take)
		return nl_bucket_room(full_at, now, NL_PR_FINDING_BURST_NS, NL_PR_FINDING_NS);
	return nl_bucket_take(full_at, now, NL_PR_FINDING_BURST_NS, NL_PR_FINDING_NS, true);
}

static __always_inline void count(struct nl_pr_sender *sender, __u64 bytes, bool passed, __u64 now_ns)
{
	if (passed) {
		__sync_fetch_and_add(&sender->passed, 1);
		__sync_fetch_and_add(&sender->passed_bytes, bytes);
	} else {
		__sync_fetch_and_add(&sender->dropped, 1);
		__sync_fetch_and_add(&sender->dropped_bytes, bytes);
		NL_WRITE(sender->excess, window_of(now_ns));
	}
}

/* Sends a copy without an owner in the place of a passing frame. TCP super-frames are received on
 * their sender's time anyway, and others are worth a thread's wake-up. */
static __always_inline int pass(struct __sk_buff *skb, const struct nl_pr_sender *sender, bool leaves, __u64 now_ns)
{
	if (!leaves || !NL_READ(sender->excess) || window_of(now_ns) > NL_READ(sender->excess) + 1 ||
	    skb->gso_size)
		return NL_NEXT;
	/* The copy comes by this program once more at the same port: the mark lets it pass
	 * uncharged. */
	skb->mark = NL_OWN_TIME_MARK;
	if (bpf_clone_redirect(skb, skb->ifindex, 0) == 0)
		return NL_DROP;
	/* There was no memory for a copy: the original goes on, on the node's time. */
	skb->mark = 0;
	return NL_NEXT;
}

/* Looks ahead at a port where frames enter a switch. */
static __always_inline int look_ahead(struct __sk_buff *skb, __u32 ifindex, const struct nl_pr_gate *gate)
{
	struct nl_pr_address to = { .segment = gate->segment };
	struct nl_pr_sender *sender;
	struct nl_pr_owner *owner;
	struct nl_pr_state *state;
	struct nl_pr_rate *rate;
	__u64 now_ns;
	__u32 node;

	if (bpf_skb_load_bytes(skb, 0, to.mac, sizeof(to.mac)))
		return NL_NEXT;
	owner = bpf_map_lookup_elem(&nl_pr_owners, &to);
	if (!owner)
		return NL_NEXT;
	node = owner->node;
	rate = bpf_map_lookup_elem(&nl_pr_rates, &node);
	state = bpf_map_lookup_elem(&nl_pr_state, &node);
	if (!rate || !state)
		return NL_NEXT;
	/* A bridge leaves a frame's ingress interface as it is: this is the entry that is
	 * charged later. */
	sender = sender_of(node, ifindex);
	/* Once for all that follows. */
	now_ns = bpf_ktime_get_ns();
	if (!sender || would_pass(state, sender, rate, skb->len, now_ns) || finds(skb, node, ifindex, now_ns, false))
		return NL_NEXT;
	count(sender, skb->len, false, now_ns);
	return NL_DROP;
}

/* Who sent a frame: the interface by which it entered this namespace, or its source address. */
static __always_inline __u32 sender_key(struct __sk_buff *skb, __u32 at)
{
	__u32 key = 0;

	if (at == NL_PR_AT_PORT && skb->ingress_ifindex)
		return skb->ingress_ifindex;
	if (bpf_skb_load_bytes(skb, 8, &key, sizeof(key)))
		return 0;
	return key;
}

SEC("tc")
int nl_protect(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex, key;
	__u64 bytes = skb->len, now_ns;
	struct nl_pr_sender *sender;
	struct nl_pr_gate *gate;
	struct nl_pr_state *state;
	struct nl_pr_port *port;
	struct nl_pr_rate *rate;
	__u32 node, at;
	bool enters, passed;

	if (skb->mark == NL_WIRE_MARK)
		return NL_NEXT;
	if (skb->mark == NL_OWN_TIME_MARK) {
		skb->mark = 0;
		return NL_NEXT;
	}
	/* Where a frame enters it has just come by the interface; a switch never sends it back there. */
	enters = skb->ingress_ifindex == ifindex;
	if (enters) {
		gate = bpf_map_lookup_elem(&nl_pr_gates, &ifindex);
		if (gate && look_ahead(skb, ifindex, gate) == NL_DROP)
			return NL_DROP;
	}
	port = bpf_map_lookup_elem(&nl_pr_ports, &ifindex);
	/* Of a switch's port both directions may come by here, and one is protected. */
	if (!port || (port->at != NL_PR_AT_NODE && enters))
		return NL_NEXT;
	node = port->node;
	rate = bpf_map_lookup_elem(&nl_pr_rates, &node);
	state = bpf_map_lookup_elem(&nl_pr_state, &node);
	if (!rate || !state)
		return NL_NEXT;
	at = port->at;
	key = sender_key(skb, at);
	sender = sender_of(node, key);
	if (!sender)
		sender = sender_of(node, 0);
	if (!sender)
		return NL_NEXT;
	now_ns = bpf_ktime_get_ns();
	passed = passes(state, sender, rate, bytes, now_ns) || finds(skb, node, key, now_ns, true);
	count(sender, bytes, passed, now_ns);
	return passed ? pass(skb, sender, at != NL_PR_AT_NODE, now_ns) : NL_DROP;
}
