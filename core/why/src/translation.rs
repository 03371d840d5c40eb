//! What is not certain any more once a rule may have given packets other addresses.

use crate::cause::CauseName;
use crate::walk::{Doubt, Stop, Translated, Walk};

impl Translated {
    /// Whether a stop rests on an address that may be another. The source matters to rules and to `rp_filter`.
    fn concerns(self, at: usize, stop: &Stop) -> bool {
        let behind = |first: Option<usize>| first.is_some_and(|first| at >= first);
        let of_source = [CauseName::NftDrop, CauseName::NftReject, CauseName::ReversePathFilter];
        behind(self.destination) || behind(self.source) && of_source.contains(&stop.cause.name)
    }
}

impl Walk {
    /// Turns stops that rest on addresses which may be others into doubts.
    pub(crate) fn doubt_behind(&mut self, translated: Translated) {
        let mut at = 0;
        self.doubt_if(|stop| {
            at += 1;
            translated.concerns(at - 1, stop)
        });
    }

    /// The way of the answers to packets that went that way. Until an answer comes to the node that translated what it
    /// answers, its addresses are others than those that were looked up.
    #[must_use]
    pub(crate) fn answering(&self, there: &Walk) -> Walk {
        let mut walk = self.clone();
        if let Some(node) = &there.translated_by {
            let at = walk.places.iter().position(|place| place.node.as_ref() == Some(node));
            let until = at.unwrap_or(usize::MAX);
            walk.doubt_if(|stop| stop.from <= until);
        }
        walk
    }

    fn doubt_if(&mut self, mut is_unsure: impl FnMut(&Stop) -> bool) {
        for stop in std::mem::take(&mut self.stops) {
            if is_unsure(&stop) {
                let text = format!("{}, if the packet still has its addresses", stop.cause.text);
                self.doubts.push(Doubt { from: stop.from, to: stop.to, text });
            } else {
                self.stops.push(stop);
            }
        }
        self.doubts.sort_by_key(|doubt| doubt.from);
    }
}
