/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Appends the frames that pass an interface to mapped memory, as whole pcapng enhanced packet
 * blocks (draft-ietf-opsawg-pcapng, 4.3), copying each byte once. All programs return the same
 * verdict, "continue" unless frames are to end here; on request, XDP drops frames for other
 * stations that the kernel would only drop. The layout of the rings is in netloom/capture.h.
 *
 * Programs on one CPU run one after the other: frames are handled with soft interrupts off. If one
 * still interrupts another, `busy` makes it a lost frame and not a torn ring.
 *
 * `tail` and `length` are plain stores after those of the data, in the order in which x86 makes
 * stores visible (TSO); on other machines they are exchanges, which are full barriers in BPF.
 */
#include <netloom/kernel.h>
#include <netloom/capture.h>
#include <bpf/bpf_core_read.h>

#define EPB_HEADER 28
#define EPB 6ULL
#define INBOUND 1
#define OUTBOUND 2
#define CHECKSUM_UNFINISHED (1u << 9)
#define CHECKSUM_VALID (1u << 10)
#define SEGMENTS (1u << 11)
/* The option epb_flags: code and length; its size with its value and the end of options. */
#define OPTION_FLAGS 0x00040002u
#define OPTIONS 12
/* Shorter frames are copied by words, others by the kernel's helpers. */
#define SHORT 256
#define MACS 12
#define TAG 4

#define barrier() asm volatile("" ::: "memory")

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile struct nl_tap_options nl_tap_options SEC(".rodata");

/* Sizes are set before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct nl_tap_cpu));
} nl_tap_cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, 8);
} nl_tap_ring SEC(".maps");

/* Nothing is sent through it: it is there for its wake-ups. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} nl_tap_bell SEC(".maps");

/* The properties of a frame, known before it is copied. */
struct frame {
	bool xdp;
	void *data; /* the first part */
	void *end;
	__u32 length; /* without the tag */
	__u32 flags; /* for epb_flags */
	bool ends; /* the frame ends here */
	bool tagged;
	__u32 tag; /* beside the frame, to insert after the MACs, in network order */
};

static __always_inline int load(void *ctx, const struct frame *f, __u32 from, void *to, __u32 n)
{
	return f->xdp ? bpf_xdp_load_bytes(ctx, from, to, n) : bpf_skb_load_bytes(ctx, from, to, n);
}

#define COPY_STEP(bytes)                                                    \
	if (n & (bytes)) {                                                  \
		if (from + (bytes) > end)                                   \
			return false;                                       \
		_Pragma("unroll") for (int i = 0; i < (bytes) / 8; i++)     \
			((__u64 *)to)[i] = ((const __u64 *)from)[i];        \
		from += (bytes);                                            \
		to += (bytes);                                              \
	}

/* Copies 8 to 255 bytes by words; the last may overlap. False if they are not all in the first part. */
static __always_inline bool copy_short(const struct frame *f, void *to, __u64 n)
{
	const void *from = f->data, *end = f->end, *last;
	void *last_to = to + n - 8;
	__u64 before = n - 8;

	NL_OPAQUE(before);
	if (before > SHORT)
		return false;
	last = from + before;
	if (last + 8 > end)
		return false;
	*(__u64 *)last_to = *(const __u64 *)last;
	COPY_STEP(128)
	COPY_STEP(64)
	COPY_STEP(32)
	COPY_STEP(16)
	COPY_STEP(8)
	return true;
}

/* Proves to the verifier that this is 1 to NL_TAP_MOST: before Linux 6.8 it does not infer from a
 * comparison with 0 that a value is not 0. False if it is not. */
static __always_inline bool shown(__u64 *n)
{
	__u64 less = *n - 1;

	NL_OPAQUE(less);
	if (less >= NL_TAP_MOST)
		return false;
	*n = less + 1;
	return true;
}

/* Copies `kept` bytes of the frame, restoring its tag. */
static __always_inline bool copy(void *ctx, const struct frame *f, __u8 *to, __u32 kept)
{
	__u64 n = kept;

	if (n > nl_tap_options.most || !shown(&n))
		return false;
	if (f->tagged) {
		__u64 rest = n - (MACS + TAG);

		if (n <= MACS + TAG || load(ctx, f, 0, to, MACS) || !shown(&rest))
			return false;
		*(__u32 *)(to + MACS) = f->tag;
		return !load(ctx, f, MACS, to + MACS + TAG, rest);
	}
	if (nl_tap_options.words && n >= 8 && n < SHORT && copy_short(f, to, n))
		return true;
	return !load(ctx, f, 0, to, n);
}

extern void *bpf_cast_to_kern_ctx(void *obj) __ksym __weak;
extern void *bpf_rdonly_cast(const void *obj, __u32 type) __ksym __weak;

/* The kernel's interface structures (Linux names; members missing in a kernel are left out). */
struct list_head___nl {
	struct list_head___nl *next;
} __attribute__((preserve_access_index));

struct net_device___nl {
	const unsigned char *dev_addr;
	void *rx_handler;
	void *tcx_ingress;
	void *miniq_ingress;
	void *nf_hooks_ingress;
	void *vlan_info;
	struct list_head___nl ptype_all;
	struct list_head___nl ptype_specific;
} __attribute__((preserve_access_index));

struct xdp_rxq_info___nl {
	struct net_device___nl *dev;
} __attribute__((preserve_access_index));

struct xdp_buff___nl {
	struct xdp_rxq_info___nl *rxq;
} __attribute__((preserve_access_index));

/* Any kernel structure that begins with 8 bytes other than a pointer. */
struct timespec64 {
	__s64 tv_sec;
};

#define MAC 0xffffffffffffULL
#define MULTICAST 1

#define HAS(dev, field) (bpf_core_field_exists((dev)->field) && (dev)->field)
#define FILLED(dev, list) ((const void *)(dev)->list.next != (const void *)&(dev)->list)

/* Whether anything but the kernel's stack takes frames received on the interface: a bridge or
 * another upper interface, ingress programs and filters, or packet sockets. */
static __always_inline bool is_shared(const struct net_device___nl *dev)
{
	return dev->rx_handler || HAS(dev, tcx_ingress) || HAS(dev, miniq_ingress) ||
	       HAS(dev, nf_hooks_ingress) || HAS(dev, vlan_info) || FILLED(dev, ptype_all) ||
	       FILLED(dev, ptype_specific);
}

/* Whether a frame is for another station and would reach only the stack, which drops it. */
static __always_inline bool is_for_nobody_here(struct xdp_md *ctx)
{
	const __u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const struct net_device___nl *dev;
	const struct timespec64 *own;
	__u64 to;

	if (!bpf_ksym_exists(bpf_cast_to_kern_ctx) || !bpf_ksym_exists(bpf_rdonly_cast) ||
	    data + 8 > end)
		return false;
	to = *(const __u64 *)data;
	if (((const __u8 *)&to)[0] & MULTICAST)
		return false;
	dev = ((struct xdp_buff___nl *)bpf_cast_to_kern_ctx(ctx))->rxq->dev;
	own = bpf_rdonly_cast(dev->dev_addr, bpf_core_type_id_kernel(struct timespec64));
	/* Compares the first six bytes, in the machine's byte order. */
	to ^= (__u64)own->tv_sec;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	to &= MAC;
#else
	to >>= 16;
#endif
	return to && !is_shared(dev);
}

/* The receive side of a veth pair, which may be a module: only offsets in it are queried. */
struct veth_stats___nl {
	__u64 xdp_packets;
} __attribute__((preserve_access_index));

struct veth_rq_stats___nl {
	struct veth_stats___nl vs;
} __attribute__((preserve_access_index));

struct veth_rq___nl {
	struct veth_rq_stats___nl stats;
	struct xdp_rxq_info___nl xdp_rxq;
} __attribute__((preserve_access_index));

/* Identifies the current driver poll; all ones if unknown. A veth counts its frames at the end of
 * each poll, and handles one poll's frames in sequence. */
static __always_inline __u64 poll_of(struct xdp_md *ctx)
{
	const struct timespec64 *frames;
	const void *place;

	if (!bpf_ksym_exists(bpf_cast_to_kern_ctx) || !bpf_ksym_exists(bpf_rdonly_cast) ||
	    !bpf_core_field_exists(struct veth_rq___nl, stats.vs.xdp_packets) ||
	    !bpf_core_field_exists(struct veth_rq___nl, xdp_rxq))
		return ~0ULL;
	place = (const void *)((struct xdp_buff___nl *)bpf_cast_to_kern_ctx(ctx))->rxq;
	place -= bpf_core_field_offset(struct veth_rq___nl, xdp_rxq);
	place += bpf_core_field_offset(struct veth_rq___nl, stats.vs.xdp_packets);
	frames = bpf_rdonly_cast(place, bpf_core_type_id_kernel(struct timespec64));
	return (__u64)frames->tv_sec ^ (__u64)ctx->rx_queue_index << 48;
}

/* Frames of a poll that share a clock reading: the last of 4 is handled within a microsecond after
 * the first. */
#define SHARING 4

static __always_inline __u64 clock(void)
{
	return nl_tap_options.tai ? bpf_ktime_get_tai_ns() : bpf_ktime_get_ns();
}

/* A frame that continues needs its own reading, and so does the next: building packets takes time. */
static __always_inline __u64 unix_time(void *ctx, const struct frame *f, struct nl_tap_cpu *cpu)
{
	__u64 poll = f->ends && nl_tap_options.veth ? poll_of(ctx) : ~0ULL;

	if (cpu->left && poll != ~0ULL && poll == cpu->poll) {
		cpu->left--;
	} else {
		cpu->time = clock();
		cpu->poll = poll;
		cpu->left = poll != ~0ULL ? SHARING - 1 : 0;
	}
	return cpu->time + NL_READ(cpu->offset);
}

static __always_inline void publish(__u64 *word, __u64 value)
{
	if (nl_tap_options.weak)
		__sync_lock_test_and_set(word, value);
	else
		NL_WRITE(*word, value);
}

/* Writes the block at `at`; returns its length, or 0 if the frame cannot be read. */
static __always_inline __u32 block(void *ctx, const struct frame *f, __u8 *at, __u64 time)
{
	__u32 original = f->length + (f->tagged ? TAG : 0);
	__u32 kept = original, flags = f->flags;
	__u64 padded, total;
	__u8 *after;

	if (kept > nl_tap_options.most)
		kept = nl_tap_options.most;
	if (!copy(ctx, f, at + EPB_HEADER, kept))
		return 0;
	padded = (kept + 3) & ~3u;
	NL_OPAQUE(padded);
	if (padded > NL_TAP_MOST || padded > nl_tap_options.most + 3ULL)
		return 0;
	total = EPB_HEADER + padded + 4 + (flags ? OPTIONS : 0);
	after = at + EPB_HEADER + padded;
	/* Padding: the rest of the last word may hold bytes of an earlier block. */
	if (kept & 3)
		for (__u32 i = 1; i <= 3; i++)
			if (i <= padded - kept)
				*(after - i) = 0;
	if (flags) {
		*(__u32 *)after = OPTION_FLAGS;
		*(__u32 *)(after + 4) = flags;
		*(__u32 *)(after + 8) = 0;
		after += OPTIONS;
	}
	*(__u32 *)after = total;
	*(__u64 *)at = EPB | total << 32;
	*(__u64 *)(at + 8) = nl_tap_options.interface | (time >> 32) << 32;
	*(__u64 *)(at + 16) = (time & 0xffffffff) | (__u64)kept << 32;
	*(__u32 *)(at + 24) = original;
	return total;
}

static __always_inline void append(void *ctx, const struct frame *f, struct nl_tap_cpu *cpu)
{
	__u64 tail = NL_READ(cpu->tail);
	__u32 used = tail, number = tail >> 32;
	__u32 slot = NL_READ(cpu->slot), place = cpu->base + slot;
	__u32 chunks = NL_READ(cpu->chunks);
	struct nl_tap_chunk *chunk;
	__u64 at = used & nl_tap_options.mask;
	__u32 total;

	/* Only a chunk not yet begun can still be user space's. Both numbers wrap, their
	 * difference holds. */
	if (!used && number - NL_READ(cpu->freed) >= chunks)
		goto lost;
	chunk = bpf_map_lookup_elem(&nl_tap_ring, &place);
	if (!chunk)
		goto lost;
	NL_OPAQUE(at);
	/* The verifier needs the mask here, and the compiler would drop one that it has seen. */
	at &= nl_tap_options.mask;
	total = block(ctx, f, chunk->bytes + at, unix_time(ctx, f, cpu));
	if (!total)
		goto lost;
	cpu->captured++;
	if (f->length + (f->tagged ? TAG : 0) > nl_tap_options.most)
		cpu->truncated++;
	if (used + total <= nl_tap_options.mask) {
		publish(&cpu->tail, tail + total);
		return;
	}
	NL_WRITE(chunk->length, used + total);
	cpu->slot = slot + 1 < chunks ? slot + 1 : 0;
	/* A reader that sees the next number must see this length. */
	barrier();
	publish(&cpu->tail, (__u64)(number + 1) << 32);
	return;
lost:
	cpu->lost++;
}

/* Locks this CPU's state for one frame; NULL if there is none or another frame holds it. */
static __always_inline struct nl_tap_cpu *enter(void)
{
	__u32 id = bpf_get_smp_processor_id();
	struct nl_tap_cpu *cpu = bpf_map_lookup_elem(&nl_tap_cpus, &id);

	if (!cpu)
		return NULL;
	/* Only a program that interrupts this one on the same CPU can find it set. */
	if (NL_READ(cpu->busy)) {
		__sync_fetch_and_add(&cpu->nested, 1);
		return NULL;
	}
	NL_WRITE(cpu->busy, 1);
	barrier();
	cpu->offered++;
	return cpu;
}

static __always_inline void leave(struct nl_tap_cpu *cpu)
{
	barrier();
	NL_WRITE(cpu->busy, 0);
}

/* Wakes user space, if it sleeps. An empty record is enough: the reader polls, and is told that there is one. */
static __always_inline void ring_bell(struct nl_tap_cpu *cpu)
{
	void *record;

	if (!NL_READ(cpu->waits))
		return;
	NL_WRITE(cpu->waits, 0);
	record = bpf_ringbuf_reserve(&nl_tap_bell, 8, 0);
	if (record)
		bpf_ringbuf_discard(record, BPF_RB_FORCE_WAKEUP);
}

static __always_inline int take(void *ctx, const struct frame *f)
{
	struct nl_tap_cpu *cpu = enter();

	if (cpu) {
		append(ctx, f, cpu);
		ring_bell(cpu);
		leave(cpu);
	}
	return nl_tap_options.verdict;
}

static __always_inline int refuse(void)
{
	struct nl_tap_cpu *cpu = enter();

	if (cpu) {
		cpu->filtered++;
		leave(cpu);
	}
	return nl_tap_options.verdict;
}

SEC("xdp.frags")
int nl_tap_xdp(struct xdp_md *ctx)
{
	struct frame f = {
		.xdp = true,
		.data = (void *)(long)ctx->data,
		.end = (void *)(long)ctx->data_end,
		.length = bpf_xdp_get_buff_len(ctx),
		.flags = nl_tap_options.direction ? INBOUND : 0,
		.ends = nl_tap_options.others && is_for_nobody_here(ctx),
	};
	int verdict = take(ctx, &f);

	return f.ends ? XDP_DROP : verdict;
}

SEC("xdp.frags")
int nl_tap_xdp_no(struct xdp_md *ctx)
{
	int verdict = refuse();

	return nl_tap_options.others && is_for_nobody_here(ctx) ? XDP_DROP : verdict;
}

/* The kernel's frame; a context shows only part of it. */
struct sk_buff___nl {
	__u8 ip_summed : 2;
} __attribute__((preserve_access_index));

#define UNNECESSARY 1
#define PARTIAL 3

/* Reads what a context does not show from the kernel's frame, if allowed (Linux 6.2). */
static __always_inline __u32 checksum(struct __sk_buff *skb)
{
	struct sk_buff___nl *frame;

	if (!bpf_ksym_exists(bpf_cast_to_kern_ctx) ||
	    !bpf_core_field_exists(struct sk_buff___nl, ip_summed))
		return 0;
	frame = bpf_cast_to_kern_ctx(skb);
	switch (BPF_CORE_READ_BITFIELD(frame, ip_summed)) {
	case PARTIAL:
		return CHECKSUM_UNFINISHED;
	case UNNECESSARY:
		return CHECKSUM_VALID;
	default:
		return 0;
	}
}

static __always_inline int take_skb(struct __sk_buff *skb, __u32 direction)
{
	struct frame f = {
		.data = (void *)(long)skb->data,
		.end = (void *)(long)skb->data_end,
		.length = skb->len,
		.flags = checksum(skb) | (skb->gso_size ? SEGMENTS : 0),
		.tagged = skb->vlan_present,
	};

	if (f.tagged)
		/* vlan_proto is in network order, vlan_tci in the machine's. */
		f.tag = (skb->vlan_proto & 0xffff) |
			(__u32)__builtin_bswap16(skb->vlan_tci) << 16;
	if (f.flags || nl_tap_options.direction)
		f.flags |= direction;
	return take(skb, &f);
}

SEC("tc")
int nl_tap_in(struct __sk_buff *skb)
{
	return take_skb(skb, INBOUND);
}

SEC("tc")
int nl_tap_eg(struct __sk_buff *skb)
{
	return take_skb(skb, OUTBOUND);
}

SEC("tc")
int nl_tap_tc_no(struct __sk_buff *skb)
{
	return refuse();
}

/* Filters of packet sockets tail-call these; the verdict is the number of bytes to keep. */
SEC("socket")
int nl_tap_sk_yes(struct __sk_buff *skb)
{
	struct nl_tap_cpu *cpu = enter();

	if (cpu) {
		cpu->captured++;
		leave(cpu);
	}
	return nl_tap_options.verdict;
}

SEC("socket")
int nl_tap_sk_no(struct __sk_buff *skb)
{
	refuse();
	return 0;
}
