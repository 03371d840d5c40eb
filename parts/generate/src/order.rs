//! Sorts the frames of a file into recording order within a bounded look-ahead.
//!
//! A file of several interfaces is often written interface by interface: each is in order, the whole is not.
//! Frames are held until the newest is [`SPAN`] ahead of them or [`MOST`] bytes are held; the player detects
//! frames older than one already released. Frames of the same time keep their order, and a frame without a
//! time takes that of its predecessor. Invariant: each frame comes out exactly once.

/// Look-ahead in nanoseconds of the recording.
const SPAN: u64 = 1_000_000_000;
/// Look-ahead in bytes.
const MOST: usize = 16 << 20;

/// A held frame.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// Sort key.
    key: u64,
    time: Option<u64>,
    start: usize,
    length: usize,
}

/// Frames held until all earlier ones are known.
#[derive(Debug, Default)]
pub(crate) struct Order {
    bytes: Vec<u8>,
    held: Vec<Held>,
    least: u64,
    latest: u64,
    /// Key of the last frame added.
    last: u64,
    /// Frames that were added after a newer one.
    moved: u64,
}

impl Order {
    /// Holds a frame; returns whether [`Order::take`] is due.
    pub(crate) fn put(&mut self, frame: &[u8], time: Option<u64>) -> bool {
        let key = time.unwrap_or(self.last);
        self.moved += u64::from(!self.held.is_empty() && key < self.latest);
        if self.held.is_empty() {
            (self.least, self.latest) = (key, key);
        }
        self.last = key;
        (self.least, self.latest) = (self.least.min(key), self.latest.max(key));
        self.held.push(Held { key, time, start: self.bytes.len(), length: frame.len() });
        self.bytes.extend_from_slice(frame);
        // Twice the look-ahead, so that each sort releases about half of what it has moved.
        self.bytes.len() >= MOST || self.latest - self.least >= 2 * SPAN
    }

    /// Releases frames that need not wait any longer, in order; with `all`, every frame.
    pub(crate) fn take(&mut self, all: bool, mut give: impl FnMut(&[u8], Option<u64>)) {
        if !self.held.is_sorted_by_key(|held| held.key) {
            self.held.sort_by_key(|held| held.key);
        }
        let count = if all { self.held.len() } else { self.ready() };
        for held in self.held.drain(..count) {
            give(self.bytes.get(held.start..held.start + held.length).unwrap_or(&[]), held.time);
        }
        let mut rest = Vec::with_capacity(if all { 0 } else { self.bytes.capacity() });
        for held in &mut self.held {
            let start = rest.len();
            rest.extend_from_slice(&self.bytes[held.start..held.start + held.length]);
            held.start = start;
        }
        self.bytes = rest;
        self.least = self.held.first().map_or(self.latest, |held| held.key);
    }

    /// Number of frames, in order, that need not wait.
    fn ready(&self) -> usize {
        let old = self.latest.saturating_sub(SPAN);
        let by_time = self.held.partition_point(|held| held.key < old);
        let mut bytes = 0;
        let by_room = self.held.iter().take_while(|held| {
            bytes += held.length;
            bytes <= MOST / 2
        });
        // Half of the room is freed, so that the next frames need no further sort.
        if self.bytes.len() >= MOST { by_time.max(by_room.count()) } else { by_time }
    }

    /// Takes the count of frames that follow newer ones in the file and were sorted before them.
    pub(crate) fn take_moved(&mut self) -> u64 {
        std::mem::take(&mut self.moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(
        order: &mut Order,
        frames: impl IntoIterator<Item = (Vec<u8>, Option<u64>)>,
    ) -> Vec<(Vec<u8>, Option<u64>)> {
        let mut came = vec![];
        for (frame, time) in frames {
            if order.put(&frame, time) {
                order.take(false, |frame, time| came.push((frame.to_vec(), time)));
            }
        }
        order.take(true, |frame, time| came.push((frame.to_vec(), time)));
        came
    }

    #[test]
    fn interfaces_one_behind_the_other_are_merged() {
        let ms = |n: u64| n * 1_000_000;
        let one = (0..100).map(|n| (vec![1], Some(ms(2 * n))));
        let other = (0..100).map(|n| (vec![2], Some(ms(2 * n + 1))));
        let mut order = Order::default();
        let came = all(&mut order, one.chain(other));
        assert!(
            came.iter()
                .map(|(frame, time)| (frame[0], time.unwrap()))
                .eq((0..100).flat_map(|n| [(1, ms(2 * n)), (2, ms(2 * n + 1))]))
        );
        // All frames of the second interface except its last, which is the newest.
        assert_eq!(order.take_moved(), 99);
    }

    #[test]
    fn frames_without_a_time_stay_where_they_are() {
        let frames = [(1, Some(5)), (2, None), (3, Some(4)), (4, None), (5, Some(5))];
        let frames = frames.map(|(byte, time)| (vec![byte], time));
        let came = all(&mut Order::default(), frames);
        assert!(came.iter().map(|(frame, _)| frame[0]).eq([3, 4, 1, 2, 5]));
    }

    #[test]
    fn what_is_held_is_bounded() {
        let mut order = Order::default();
        let mut given = 0;
        for _ in 0..64 {
            if order.put(&vec![0; 1 << 20], Some(7)) {
                order.take(false, |_, _| given += 1);
            }
            assert!(order.bytes.len() <= MOST);
        }
        assert!(given >= 48, "{given}");
    }

    proptest! {
        #[test]
        fn all_come_once_and_in_order_within_the_span(
            frames in proptest::collection::vec((0..SPAN / 2, 0_usize..40), 0..300), gap in 0..SPAN
        ) {
            let put: Vec<_> = frames.iter().zip(0_u64..).map(|((jitter, length), n)| {
                (vec![n.to_le_bytes()[0]; *length], Some(n * gap + jitter))
            }).collect();
            let mut sorted = put.clone();
            sorted.sort_by_key(|(_, time)| *time);
            prop_assert_eq!(all(&mut Order::default(), put), sorted);
        }
    }
}
