//! Decimal numbers without sign, in limbs of six digits, the lowest first: no conversion is needed to print them.
//!
//! Fixed-point numbers are integers whose reader knows how many limbs lie behind the point. Invariant: the highest limb is
//! not zero; zero has none.

use super::transform;

/// Digits of a limb, and their radix.
pub(super) const LIMB_DIGITS: usize = 6;
const RADIX: u64 = 1_000_000;
/// Products with a shorter side than this are made by hand.
const SHORT: usize = 48;
/// Limbs of a first approximation, which a machine's number holds.
const FIRST: usize = 2;

/// A number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Number(Vec<u32>);

impl From<u64> for Number {
    fn from(value: u64) -> Number {
        let mut limbs = vec![];
        push_all(&mut limbs, value);
        Number(limbs)
    }
}

fn limb(value: u64) -> u32 {
    (value % RADIX) as u32
}

fn push_all(limbs: &mut Vec<u32>, mut carry: u64) {
    while carry > 0 {
        limbs.push(limb(carry));
        carry /= RADIX;
    }
}

impl Number {
    /// Without zeros above.
    fn trimmed(mut limbs: Vec<u32>) -> Number {
        while limbs.last() == Some(&0) {
            limbs.pop();
        }
        Number(limbs)
    }

    /// One, shifted by this many limbs.
    fn one(shift: usize) -> Number {
        Number::from(1).shifted(shift)
    }

    fn shifted(&self, limbs: usize) -> Number {
        let mut all = vec![0; limbs];
        all.extend(&self.0);
        Number::trimmed(all)
    }

    /// Without its lowest limbs.
    pub(super) fn without(&self, limbs: usize) -> Number {
        Number(self.0.get(limbs..).unwrap_or_default().to_vec())
    }

    pub(super) fn is_less(&self, other: &Number) -> bool {
        let (own, others) = (self.0.iter().rev(), other.0.iter().rev());
        self.0.len().cmp(&other.0.len()).then_with(|| own.cmp(others)).is_lt()
    }

    pub(super) fn plus(&self, other: &Number) -> Number {
        let (long, short) =
            if self.0.len() < other.0.len() { (other, self) } else { (self, other) };
        let (mut sum, mut carry) = (Vec::with_capacity(long.0.len() + 1), 0);
        for (at, own) in long.0.iter().enumerate() {
            let value =
                carry + u64::from(*own) + short.0.get(at).map_or(0, |limb| u64::from(*limb));
            sum.push(limb(value));
            carry = value / RADIX;
        }
        push_all(&mut sum, carry);
        Number(sum)
    }

    /// The difference to a number that is not greater.
    pub(super) fn minus(&self, other: &Number) -> Number {
        let (mut rest, mut borrow) = (Vec::with_capacity(self.0.len()), 0);
        for (at, own) in self.0.iter().enumerate() {
            let taken = borrow + other.0.get(at).map_or(0, |limb| u64::from(*limb));
            let value = RADIX + u64::from(*own) - taken;
            rest.push(limb(value));
            borrow = u64::from(value < RADIX);
        }
        Number::trimmed(rest)
    }

    /// Multiplied by a factor below 2^44.
    pub(super) fn times(&self, factor: u64) -> Number {
        let (mut product, mut carry) = (Vec::with_capacity(self.0.len() + 3), 0);
        for own in &self.0 {
            let value = carry + u64::from(*own) * factor;
            product.push(limb(value));
            carry = value / RADIX;
        }
        push_all(&mut product, carry);
        Number::trimmed(product)
    }

    fn half(&self) -> Number {
        let (mut half, mut rest) = (vec![0; self.0.len()], 0);
        for (at, own) in self.0.iter().enumerate().rev() {
            let value = rest * RADIX + u64::from(*own);
            half[at] = limb(value / 2);
            rest = value % 2;
        }
        Number::trimmed(half)
    }

    pub(super) fn by(&self, other: &Number) -> Number {
        let (long, short) =
            if self.0.len() < other.0.len() { (other, self) } else { (self, other) };
        if short.0.len() < SHORT {
            return Number::trimmed(by_hand(&long.0, &short.0));
        }
        let (mut product, mut carry) = (Vec::with_capacity(long.0.len() + short.0.len()), 0);
        for value in transform::product(&long.0, &short.0) {
            let value = carry + value;
            product.push(limb(value));
            carry = value / RADIX;
        }
        push_all(&mut product, carry);
        Number::trimmed(product)
    }

    /// `over / under`, this many limbs behind the point, but for the last limb; `over` is less than `under`.
    pub(super) fn quotient(over: &Number, under: &Number, limbs: usize) -> Number {
        // As many limbs as the result needs, of which the highest count.
        let (has, size) = (under.0.len(), limbs + 2);
        let fit = |number: &Number| {
            number.shifted(size.saturating_sub(has)).without(has.saturating_sub(size))
        };
        let (over, under) = (fit(over), fit(under));
        // The inverse is RADIX^(2 size) / under.
        over.by(&under.inverse()).without(2 * size - limbs)
    }

    /// RADIX^(2n) / self for a number of n limbs, but for some units of the last limb.
    fn inverse(&self) -> Number {
        let size = self.0.len();
        if size <= FIRST {
            let value = self.0.iter().rev().fold(0, |sum, own| sum * RADIX + u64::from(*own));
            let whole = u128::from(RADIX).pow(u32::try_from(2 * size).unwrap_or(0));
            return Number::from(
                u64::try_from(whole / u128::from(value.max(1))).unwrap_or(u64::MAX),
            );
        }
        // An approximation of half the limbs, and one more, which are then correct.
        let few = size / 2 + 1;
        let near = self.without(size - few).inverse().shifted(size - few);
        // near (2 - self near): near + near (1 - self near).
        let product = self.by(&near);
        let one = Number::one(2 * size);
        let more = product.is_less(&one);
        let error = if more { one.minus(&product) } else { product.minus(&one) };
        let change = near.by(&error).without(2 * size);
        if more { near.plus(&change) } else { near.minus(&change) }
    }

    /// 1 / √value, this many limbs behind the point, but for some units of the last one.
    pub(super) fn inverse_root(value: u64, limbs: usize) -> Number {
        if limbs <= FIRST {
            let scale = 10_f64.powi(i32::try_from(LIMB_DIGITS * limbs).unwrap_or(0));
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "an approximation below 2^53"
            )]
            return Number::from((scale / (value as f64).sqrt()) as u64);
        }
        let few = limbs / 2 + 1;
        let near = Number::inverse_root(value, few).shifted(limbs - few);
        // near + near (1 - value near²) / 2.
        let product = near.by(&near).times(value).without(limbs);
        let one = Number::one(limbs);
        let more = product.is_less(&one);
        let error = if more { one.minus(&product) } else { product.minus(&one) };
        let change = near.by(&error).without(limbs).half();
        if more { near.plus(&change) } else { near.minus(&change) }
    }

    /// Its digits.
    pub(super) fn text(&self) -> String {
        let mut limbs = self.0.iter().rev();
        let mut text = limbs.next().copied().unwrap_or(0).to_string();
        text.extend(limbs.map(|limb| format!("{limb:06}")));
        text
    }
}

/// The product, digit by digit as at school.
fn by_hand(long: &[u32], short: &[u32]) -> Vec<u32> {
    let mut sums = vec![0_u64; long.len() + short.len()];
    for (at, own) in long.iter().enumerate() {
        // At most SHORT products below RADIX² are added to a place.
        for (sum, other) in sums[at..].iter_mut().zip(short) {
            *sum += u64::from(*own) * u64::from(*other);
        }
    }
    let mut carry = 0;
    sums.into_iter()
        .map(|sum| {
            let value = carry + sum;
            carry = value / RADIX;
            limb(value)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        let digits: Vec<u8> = text.bytes().map(|byte| byte - b'0').collect();
        let limbs = digits.rchunks(LIMB_DIGITS);
        let limbs =
            limbs.map(|part| part.iter().fold(0, |sum, digit| sum * 10 + u32::from(*digit)));
        Number::trimmed(limbs.collect())
    }

    #[test]
    fn long_products_are_those_by_hand() {
        let mut state = 7_u64;
        let mut random = |limbs: usize| {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                limb(state >> 20)
            };
            Number::trimmed((0..limbs).map(|_| next()).collect())
        };
        for (own, other) in [(48, 48), (49, 300), (200, 57), (1000, 1000)] {
            let (a, b) = (random(own), random(other));
            assert_eq!(a.by(&b), Number::trimmed(by_hand(&a.0, &b.0)), "{own} by {other}");
        }
        // The largest limbs there are.
        let nines = Number(vec![999_999; 3000]);
        assert_eq!(nines.by(&nines), Number::trimmed(by_hand(&nines.0, &nines.0)));
    }

    #[test]
    fn arithmetic_is_that_by_hand() {
        let (a, b) = (number("1000000000000000000"), number("999999"));
        assert_eq!(a.minus(&b).text(), "999999999999000001");
        assert_eq!(a.minus(&b).plus(&b), a);
        assert_eq!(b.times(1_000_001).text(), "999999999999");
        assert_eq!(number("3000001").half().text(), "1500000");
        assert!(b.is_less(&a) && !a.is_less(&b) && !a.is_less(&a));
        assert_eq!(a.minus(&a), Number::from(0));
        assert_eq!((Number::from(0).text(), a.without(9)), ("0".to_owned(), Number::from(0)));
    }

    #[test]
    fn quotients_and_roots_are_near() {
        let third = Number::quotient(&Number::from(1), &Number::from(3), 40).text();
        assert!(third.starts_with(&"3".repeat(220)), "{third}");
        // 1 / √2 = 0.70710678118654752440084436210484903928…
        let root = Number::inverse_root(2, 30).text();
        assert!(root.starts_with("70710678118654752440084436210484903928"), "{root}");
        let seventh = Number::quotient(&number("1000001"), &number("7000007000007"), 30).text();
        let exact = number(&format!("1000001{}", "0".repeat(180)));
        let back = number(&seventh).by(&number("7000007000007"));
        let off = if back.is_less(&exact) { exact.minus(&back) } else { back.minus(&exact) };
        assert!(off.0.len() <= 4, "{seventh}");
    }
}
