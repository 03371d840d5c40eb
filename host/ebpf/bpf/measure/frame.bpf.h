/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * A frame as the hook shows it: a socket buffer for tcx and clsact, or a received frame for XDP.
 * The rest of the program is the same for both. XDP has no super-frames, no tag beside the frame
 * and no marking, and headers are in the first part or not read.
 */
#ifndef NETLOOM_MEASURE_FRAME_H
#define NETLOOM_MEASURE_FRAME_H

#ifdef NL_ME_XDP

#define CONTEXT struct xdp_md

/* Length of the first part; of all parts: a helper call, for packets that claim more. */
#define frame_length(skb) ((__u32)((skb)->data_end - (skb)->data))
#define frame_whole(skb) ((__u32)bpf_xdp_get_buff_len(skb))
#define frame_load(skb, at, to, size) bpf_xdp_load_bytes(skb, at, to, size)
#define frame_pull(skb, size) false
#define frame_protocol(skb) 0
#define frame_tag(skb) 0
#define frame_segment_size(skb) 0
#define frame_segments(skb) 0
#define frame_time(skb) 0

#else

#define CONTEXT struct __sk_buff

#define frame_length(skb) ((skb)->len)
#define frame_whole(skb) ((skb)->len)
#define frame_load(skb, at, to, size) bpf_skb_load_bytes(skb, at, to, size)
#define frame_protocol(skb) ((skb)->protocol)
/* Bytes of a tag beside the frame. */
#define frame_tag(skb) ((skb)->vlan_present ? 4 : 0)
#define frame_segment_size(skb) ((skb)->gso_size)
#define frame_segments(skb) ((skb)->gso_segs)
/* Volatile, so that the compiler does not merge this load with one from a map. */
#define frame_time(skb) NL_READ((skb)->tstamp)

/* Extends the first part to this size, if the frame is long enough. */
static __always_inline bool frame_pull(CONTEXT *skb, __u32 size)
{
	return !bpf_skb_pull_data(skb, skb->len < size ? skb->len : size);
}

#endif
#endif
