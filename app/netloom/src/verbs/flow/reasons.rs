//! Why switches refuse, in words, by the names of the OpenFlow specification (section 7.4.4).

/// The common reasons; others are told by their names.
const WORDS: [(&str, &str); 44] = [
    ("OFPBRC_EPERM", "it is not permitted"),
    ("OFPBRC_BAD_TABLE_ID", "there is no such table"),
    ("OFPBRC_BAD_TYPE", "the switch does not know such messages"),
    ("OFPBRC_BAD_LEN", "the message's length is wrong"),
    ("OFPBRC_IS_SLAVE", "the connection's role is slave"),
    ("OFPBRC_BAD_PORT", "there is no such port"),
    ("OFPBRC_BUFFER_UNKNOWN", "there is no such buffered packet"),
    ("OFPBAC_BAD_TYPE", "the switch does not know the action"),
    ("OFPBAC_BAD_OUT_PORT", "there is no such port to send to"),
    ("OFPBAC_BAD_ARGUMENT", "an action's value is wrong"),
    ("OFPBAC_TOO_MANY", "it has too many actions"),
    ("OFPBAC_BAD_QUEUE", "there is no such queue"),
    ("OFPBAC_BAD_OUT_GROUP", "there is no such group"),
    ("OFPBAC_MATCH_INCONSISTENT", "an action needs headers that the match does not demand"),
    ("OFPBAC_BAD_TAG", "an action pushes a tag of a wrong type"),
    ("OFPBAC_BAD_SET_TYPE", "an action sets a field that cannot be set"),
    ("OFPBAC_BAD_SET_ARGUMENT", "an action sets a field to a value that it cannot have"),
    ("OFPBIC_UNKNOWN_INST", "the switch does not know the instruction"),
    ("OFPBIC_UNSUP_INST", "the table does not have the instruction"),
    ("OFPBIC_BAD_TABLE_ID", "it goes to a table that does not exist, or not to a later one"),
    ("OFPBMC_BAD_FIELD", "the switch does not know a field of the match"),
    ("OFPBMC_BAD_VALUE", "a field of the match has a value that it cannot have"),
    ("OFPBMC_BAD_MASK", "a field of the match cannot have a mask, or not this one"),
    ("OFPBMC_BAD_PREREQ", "a field of the match needs another one, as tcp_dst needs tcp"),
    ("OFPBMC_DUP_FIELD", "a field of the match is there twice"),
    ("OFPFMFC_TABLE_FULL", "the table is full"),
    ("OFPFMFC_BAD_TABLE_ID", "there is no such table"),
    ("OFPFMFC_OVERLAP", "it overlaps another entry of its priority, and says check_overlap"),
    ("OFPFMFC_EPERM", "it is not permitted"),
    ("OFPFMFC_BAD_TIMEOUT", "the switch cannot have the timeout"),
    ("OFPFMFC_BAD_COMMAND", "the switch does not know the command"),
    ("OFPFMFC_BAD_FLAGS", "the switch does not know a flag"),
    ("OFPGMFC_GROUP_EXISTS", "there is a group of this number already"),
    ("OFPGMFC_INVALID_GROUP", "no group can be so"),
    ("OFPGMFC_OUT_OF_GROUPS", "there is no room for another group"),
    ("OFPGMFC_LOOP", "groups would send to each other for ever"),
    ("OFPGMFC_UNKNOWN_GROUP", "there is no such group"),
    ("OFPGMFC_CHAINED_GROUP", "another group sends to it"),
    ("OFPGMFC_BAD_BUCKET", "a bucket cannot be so"),
    ("OFPMMFC_METER_EXISTS", "there is a meter of this number already"),
    ("OFPMMFC_UNKNOWN_METER", "there is no such meter"),
    ("OFPMMFC_INVALID_METER", "no meter can have this number"),
    ("OFPMMFC_OUT_OF_METERS", "there is no room for another meter"),
    ("OFPMMFC_OUT_OF_BANDS", "it has too many bands"),
];

/// A reason in words.
pub(super) fn words(reason: &str) -> Option<&'static str> {
    WORDS.iter().find(|(name, _)| *name == reason).map(|(_, words)| *words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use netloom_openflow::Reason;

    #[test]
    fn every_word_is_of_a_reason() {
        for (name, _) in WORDS {
            assert!(Reason::ALL.iter().any(|reason| reason.name() == name), "{name}");
        }
    }
}
