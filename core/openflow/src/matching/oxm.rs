//! OXM TLVs, and what a list of them must fulfil (sections 7.2.3.2 to 7.2.3.8).

use super::field::{Field, Prerequisite, VID_PRESENT};
use crate::error::Reason;
use crate::wire::{Reader, Result, Writer, fail};

/// OFPXMC_OPENFLOW_BASIC.
const BASIC: u16 = 0x8000;
/// OFPXMC_EXPERIMENTER.
const EXPERIMENTER: u16 = 0xffff;

/// A field with a value, and a mask if it was sent with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Oxm {
    /// The field.
    pub field: Field,
    /// The value, right-aligned.
    pub value: u128,
    /// The bits that count; `None` was sent without a mask.
    pub mask: Option<u128>,
}

impl Oxm {
    /// The field must have exactly this value.
    pub const fn exact(field: Field, value: u128) -> Oxm {
        Oxm { field, value, mask: None }
    }

    /// The field must have this value in the bits of the mask.
    pub const fn masked(field: Field, value: u128, mask: u128) -> Oxm {
        Oxm { field, value, mask: Some(mask) }
    }

    /// Whether all bits count.
    pub fn is_exact(&self) -> bool {
        // A mask of all ones says what no mask says.
        self.bits() == self.field.full()
    }

    /// The bits that count.
    pub fn bits(&self) -> u128 {
        self.mask.unwrap_or(self.field.full())
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Oxm> {
        let id = r.u32()?;
        let [c0, c1, field, length] = id.to_be_bytes();
        // The lowest bit says that a mask follows (section 7.2.3.2).
        let (class, masked) = (u16::from_be_bytes([c0, c1]), field & 1 == 1);
        let known = Field::from_number(field >> 1).filter(|_| class == BASIC);
        let Some(field) = known else {
            return fail(Reason::BadMatchBadField, "match: unknown field");
        };
        if usize::from(length) != field.bytes() * if masked { 2 } else { 1 } {
            return fail(Reason::BadMatchBadLen, "match: length of a field");
        }
        if masked && !field.maskable() {
            return fail(Reason::BadMatchBadMask, "match: mask on a field without masks");
        }
        let value = number(r, field)?;
        let mask = if masked { Some(number(r, field)?) } else { None };
        let oxm = Oxm { field, value, mask };
        oxm.check_value()?;
        Ok(oxm)
    }

    fn check_value(&self) -> Result<()> {
        if self.value & !self.field.full() != 0 {
            return fail(Reason::BadMatchBadValue, "match: value wider than its field");
        }
        let Some(mask) = self.mask else {
            // A VLAN id without its presence bit can only be "none".
            if self.field == Field::VlanVid && self.value & VID_PRESENT == 0 && self.value != 0 {
                return fail(Reason::BadMatchBadValue, "match: VLAN id without its presence bit");
            }
            return Ok(());
        };
        if mask & !self.field.full() != 0 {
            return fail(Reason::BadMatchBadMask, "match: mask wider than its field");
        }
        if self.value & !mask != 0 {
            return fail(Reason::BadMatchBadWildcards, "match: value outside its mask");
        }
        Ok(())
    }

    pub(crate) fn write(&self, w: &mut Writer) {
        let bytes = self.field.bytes();
        let count = if self.mask.is_some() { 2 } else { 1 };
        w.u16(BASIC);
        w.u8(self.field.number() << 1 | u8::from(self.mask.is_some()));
        // At most 32.
        w.u8(u8::try_from(bytes * count).unwrap_or(u8::MAX));
        for number in [Some(self.value), self.mask].into_iter().flatten() {
            w.bytes(number.to_be_bytes().get(16 - bytes..).unwrap_or(&[]));
        }
    }
}

fn number(r: &mut Reader<'_>, field: Field) -> Result<u128> {
    let bytes = r.bytes(field.bytes())?;
    Ok(bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte)))
}

/// Whether a list of fields has none twice, and each with its prerequisite before it.
///
/// # Errors
/// The reason by which a switch refuses the list.
pub fn check(fields: &[Oxm]) -> std::result::Result<(), Reason> {
    for (index, oxm) in fields.iter().enumerate() {
        // A prerequisite must come before what needs it (section 7.2.3.6).
        let before = fields.get(..index).unwrap_or(&[]);
        if before.iter().any(|other| other.field == oxm.field) {
            return Err(Reason::BadMatchDupField);
        }
        if !fulfilled(oxm.field.needs(), before) {
            return Err(Reason::BadMatchBadPrereq);
        }
    }
    Ok(())
}

fn fulfilled(needs: Prerequisite, before: &[Oxm]) -> bool {
    let find = |field| before.iter().find(|oxm| oxm.field == field);
    match needs {
        Prerequisite::None => true,
        Prerequisite::Has(field) => find(field).is_some(),
        Prerequisite::Vlan => find(Field::VlanVid).is_some_and(|vid| vid.value & VID_PRESENT != 0),
        Prerequisite::Is(field, values) => {
            // A masked prerequisite would leave the header open.
            find(field).is_some_and(|oxm| oxm.is_exact() && values.contains(&oxm.value))
        }
    }
}

/// A field without its value, as table features list them: the header as it was on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldId {
    /// Class, field, whether it has a mask, and length.
    pub header: u32,
    /// The number behind the header if the class is that of experimenters.
    pub experimenter: Option<u32>,
}

impl FieldId {
    /// Of a field of this specification.
    pub fn new(field: Field, masked: bool) -> FieldId {
        let length = u8::try_from(field.bytes()).unwrap_or(u8::MAX);
        let [c0, c1] = BASIC.to_be_bytes();
        let header = [c0, c1, field.number() << 1 | u8::from(masked), length];
        FieldId { header: u32::from_be_bytes(header), experimenter: None }
    }

    /// The field, if this specification has it.
    pub fn field(&self) -> Option<Field> {
        let [c0, c1, field, _] = self.header.to_be_bytes();
        Field::from_number(field >> 1).filter(|_| u16::from_be_bytes([c0, c1]) == BASIC)
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<FieldId> {
        let header = r.u32()?;
        let experimenter =
            if header >> 16 == u32::from(EXPERIMENTER) { Some(r.u32()?) } else { None };
        Ok(FieldId { header, experimenter })
    }

    pub(crate) fn write(&self, w: &mut Writer) {
        w.u32(self.header);
        if let Some(number) = self.experimenter {
            w.u32(number);
        }
    }
}
