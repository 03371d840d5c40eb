/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Sends a frame. Where a port is the end of a veth pair, and nothing but the pair is on the frame's way to the network
 * namespace of the other end, the frame is handed over there at once (bpf_redirect_peer) instead of by the port's
 * egress and a queue of the processor: half of the kernel's own work for it.
 *
 * That is asked of the kernel's structures for each frame, because programs, queueing disciplines and packet sockets
 * come and go without a word. Whatever is there, or is not known, gets the frame in the ordinary way. All that is
 * asked is the same for all frames of a flow, so that none overtakes another.
 */
#ifndef NETLOOM_FLOW_STRAIGHT_H
#define NETLOOM_FLOW_STRAIGHT_H

#include <bpf/bpf_core_read.h>
#include <linux/if_packet.h>

#include "work.bpf.h"

extern void *bpf_cast_to_kern_ctx(void *obj) __ksym __weak;
extern void *bpf_rdonly_cast(const void *obj, __u32 type) __ksym __weak;

/* The kernel's structures (Linux names; members missing in a kernel are asked for first). */
struct list_head___fl {
	struct list_head___fl *next;
} __attribute__((preserve_access_index));

struct hlist_node___fl {
	struct hlist_node___fl *next;
} __attribute__((preserve_access_index));

struct hlist_head___fl {
	struct hlist_node___fl *first;
} __attribute__((preserve_access_index));

struct net___fl {
	struct hlist_head___fl *dev_index_head;
	struct list_head___fl ptype_all;
} __attribute__((preserve_access_index));

typedef struct {
	struct net___fl *net;
} __attribute__((preserve_access_index)) possible_net_t___fl;

struct Qdisc_ops___fl {
	char id[16];
} __attribute__((preserve_access_index));

struct Qdisc___fl {
	struct Qdisc_ops___fl *ops;
} __attribute__((preserve_access_index));

struct rtnl_link_ops___fl {
	const char *kind;
} __attribute__((preserve_access_index));

struct netdev_rx_queue___fl {
	void *rps_map;
} __attribute__((preserve_access_index));

struct net_device___fl {
	unsigned int flags;
	unsigned int mtu;
	int ifindex;
	__u64 features;
	__u64 hw_features;
	const unsigned char *dev_addr;
	void *tcx_egress;
	void *nf_hooks_egress;
	struct list_head___fl ptype_all;
	struct list_head___fl napi_list;
	struct hlist_node___fl index_hlist;
	struct Qdisc___fl *qdisc;
	struct netdev_rx_queue___fl *_rx;
	const struct rtnl_link_ops___fl *rtnl_link_ops;
	possible_net_t___fl nd_net;
	__u8 priv[0];
} __attribute__((preserve_access_index));

struct sk_buff___straight {
	struct net_device___fl *dev;
} __attribute__((preserve_access_index));

/* Any structure of the kernel that begins with a pointer to an interface, as the private part of a veth does. */
struct netdev_queue {
	struct net_device___fl *dev;
};

/* Any that begins with 8 bytes other than a pointer. */
struct timespec64 {
	__s64 tv_sec;
};

struct net_device {
	int ifindex;
};

struct hlist_head {
	void *first;
};

#define INTERFACE_UP 1
/* Chains of a namespace's interfaces, by index: the kernel's NETDEV_HASHENTRIES. */
#define INDEX_CHAINS 256
/* Interfaces of a chain that are looked at. */
#define MOST_CHAINED 8
/* NETIF_F_SG, NETIF_F_HW_CSUM, NETIF_F_GSO, and NETIF_F_GSO_MASK. */
#define OFFLOADS (1ULL << 0 | 1ULL << 3 | 1ULL << 11 | ((1ULL << 20) - 1) << 16)
/* Bytes beyond the MTU that the kernel's is_skb_forwardable() allows: Ethernet's header and a
 * tag. */
#define ROOM 18
/* "veth" and the zero behind it. */
#define KIND bpf_cpu_to_be64(0xffffffffff000000ULL)
#define VETH bpf_cpu_to_be64(0x7665746800000000ULL)
#define NOQUEUE bpf_cpu_to_be64(0x6e6f717565756500ULL)

#define EMPTY(list) ((const void *)(list).next == (const void *)&(list))
#define KERNEL(place, type) bpf_rdonly_cast((const void *)(place), bpf_core_type_id_kernel(type))

/* Whether the kernel's structures are those that are expected; found out when the program is loaded. */
static __always_inline bool is_known_kernel(void)
{
	return bpf_ksym_exists(bpf_cast_to_kern_ctx) && bpf_ksym_exists(bpf_rdonly_cast) &&
	       bpf_core_field_exists(struct net_device___fl, tcx_egress) &&
	       bpf_core_field_exists(struct net_device___fl, index_hlist) &&
	       bpf_core_field_exists(struct net_device___fl, priv) &&
	       bpf_core_field_exists(struct net___fl, ptype_all) &&
	       bpf_core_field_exists(struct net___fl, dev_index_head) &&
	       bpf_core_field_exists(struct netdev_rx_queue___fl, rps_map);
}

/* Eight bytes at a place of the kernel. */
static __always_inline __u64 eight(const void *place)
{
	const struct timespec64 *bytes = KERNEL(place, struct timespec64);

	return (__u64)bytes->tv_sec;
}

static __always_inline struct net_device___fl *interface(struct net___fl *net, __u32 index)
{
	struct hlist_node___fl *node;
	__u64 chains;

	/* As a number: the verifier allows no variable offset on a kernel pointer. */
	chains = eight(&net->dev_index_head);
	chains += (__u64)(index % INDEX_CHAINS) * sizeof(void *);
	node = ((struct hlist_head___fl *)KERNEL(chains, struct hlist_head))->first;
	for (int i = 0; i < MOST_CHAINED && node; i++) {
		const void *at = (const void *)node;
		struct net_device___fl *dev;

		at -= bpf_core_field_offset(struct net_device___fl, index_hlist);
		dev = KERNEL(at, struct net_device);
		if ((__u32)dev->ifindex == index)
			return dev;
		node = node->next;
	}
	return 0;
}

/* The same. An interface that was found is asked first whether it still is the one: what is behind an interface that is
 * gone cannot be another's index, namespace and state at a time. */
static __always_inline struct net_device___fl *known_interface(struct nl_fl_work *w, struct net___fl *net,
							       __u32 index)
{
	/* `out` may be freed by now. A read through bpf_rdonly_cast then returns anything, but
	 * cannot fault. */
	struct net_device___fl *dev = KERNEL(w->out, struct net_device);

	if ((__u32)dev->ifindex == index && dev->nd_net.net == net && dev->flags & INTERFACE_UP)
		return dev;
	dev = interface(net, index);
	w->out = (__u64)dev;
	return dev;
}

/* Whether nothing but the driver sees what is sent by the interface. Names of kinds are read once: these stay where
 * they are. */
static __always_inline bool is_bare(struct nl_fl_work *w, struct net_device___fl *dev)
{
	__u64 kind;

	if (!(dev->flags & INTERFACE_UP) || dev->tcx_egress || !EMPTY(dev->ptype_all))
		return false;
	if (bpf_core_field_exists(dev->nf_hooks_egress) && dev->nf_hooks_egress)
		return false;
	/* An offload that is off would be done in software at egress, and the frame with it
	 * changed. */
	if (dev->hw_features & ~dev->features & OFFLOADS)
		return false;
	kind = (__u64)dev->qdisc->ops;
	if (kind == w->noqueue)
		return true;
	if (eight(dev->qdisc->ops->id) != NOQUEUE)
		return false;
	w->noqueue = kind;
	return true;
}

static __always_inline bool is_veth(struct nl_fl_work *w, struct net_device___fl *dev)
{
	__u64 kind = (__u64)dev->rtnl_link_ops;

	if (kind && kind == w->veth)
		return true;
	if (!kind || (eight(dev->rtnl_link_ops->kind) ^ VETH) & KIND)
		return false;
	w->veth = kind;
	return true;
}

/* Whether what the interface sends to its peer reaches the receiving stack of another namespace unchanged and at once. */
static __always_inline bool is_pair(struct nl_fl_work *w, struct net_device___fl *dev,
				    struct net_device___fl *peer)
{
	/* A veth end polls only for XDP, GRO or charged receiving, for which frames queue. RPS
	 * moves them to other CPUs, and bpf_redirect_peer drops frames within one namespace. */
	return is_veth(w, dev) && peer && peer->flags & INTERFACE_UP && EMPTY(peer->napi_list) && !peer->_rx->rps_map &&
	       peer->nd_net.net != dev->nd_net.net;
}

/* Whether the frame would be taken there as one for this station. */
static __always_inline bool is_for(struct net_device___fl *peer, CONTEXT *ctx, const struct nl_fl_work *w)
{
	/* A MAC is six bytes: the two behind it are shifted out below. */
	__u64 differ = bpf_be64_to_cpu(eight(peer->dev_addr)) ^ w->key[3];

	/* Segments of a super-frame fit by their making. */
	return !(differ >> 16) && (ctx->gso_size || ctx->len <= peer->mtu + ROOM);
}

/* Whether an unchanged frame may be handed over without the port's egress. */
static __always_inline bool goes_straight(CONTEXT *ctx, struct nl_fl_work *w, __u32 to)
{
	struct net_device___fl *dev, *peer;
	struct net___fl *net;

	if (!is_known_kernel() || frame_tagged(ctx) || ctx->mark)
		return false;
	net = ((struct sk_buff___straight *)bpf_cast_to_kern_ctx(ctx))->dev->nd_net.net;
	/* A packet socket that is bound to no interface sees every frame that leaves one. */
	if (!EMPTY(net->ptype_all))
		return false;
	dev = known_interface(w, net, to);
	if (!dev || !is_bare(w, dev))
		return false;
	peer = ((struct netdev_queue *)KERNEL(&dev->priv, struct netdev_queue))->dev;
	return is_pair(w, dev, peer) && is_for(peer, ctx, w);
}

/* Sends an unchanged frame. */
static __always_inline int send_frame(CONTEXT *ctx, struct nl_fl_work *w, __u32 to)
{
	if (!goes_straight(ctx, w, to))
		return bpf_redirect(to, 0);
	/* Nothing decides the type again behind bpf_redirect_peer: as OTHERHOST the far stack
	 * would drop it. */
	if (ctx->pkt_type != PACKET_HOST && bpf_skb_change_type(ctx, PACKET_HOST))
		return VERDICT_DROP;
	return bpf_redirect_peer(to, 0);
}

#endif
