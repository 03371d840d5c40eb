//! Reasons for errors in both versions (section 7.4.4), and why a message cannot be encoded.
//!
//! A [`Reason`] is an error of either version by its name in the specification. Where 1.0 lacks one, it is sent as
//! the nearest that 1.0 has; numbers are converted back to the reason that has them in that version.

use crate::header::Version;

macro_rules! reasons {
    ($($name:ident = $text:literal, $v13:expr, $v10:expr;)+) => {
        /// A reason for an error, by its name in the specification.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the names are those of the specification")]
        pub enum Reason { $($name,)+ }

        impl Reason {
            /// Every reason.
            pub const ALL: &[Reason] = &[$(Reason::$name,)+];

            /// Its constant in the specification.
            pub const fn name(self) -> &'static str {
                match self { $(Reason::$name => $text,)+ }
            }

            /// Type and code in 1.3, and in 1.0 with whether 1.0 defines it.
            const fn table(self) -> ((u16, u16), (u16, u16, bool)) {
                match self { $(Reason::$name => ($v13, $v10),)+ }
            }
        }
    };
}

/// A number of 1.0 that 1.0 defines with the same meaning.
const fn own(kind: u16, code: u16) -> (u16, u16, bool) {
    (kind, code, true)
}

/// A number of 1.0 that comes nearest.
const fn near(kind: u16, code: u16) -> (u16, u16, bool) {
    (kind, code, false)
}

reasons! {
    HelloFailedIncompatible = "OFPHFC_INCOMPATIBLE", (0, 0), own(0, 0);
    HelloFailedEperm = "OFPHFC_EPERM", (0, 1), own(0, 1);
    BadRequestBadVersion = "OFPBRC_BAD_VERSION", (1, 0), own(1, 0);
    BadRequestBadType = "OFPBRC_BAD_TYPE", (1, 1), own(1, 1);
    BadRequestBadMultipart = "OFPBRC_BAD_MULTIPART", (1, 2), own(1, 2);
    BadRequestBadExperimenter = "OFPBRC_BAD_EXPERIMENTER", (1, 3), own(1, 3);
    BadRequestBadExpType = "OFPBRC_BAD_EXP_TYPE", (1, 4), own(1, 4);
    BadRequestEperm = "OFPBRC_EPERM", (1, 5), own(1, 5);
    BadRequestBadLen = "OFPBRC_BAD_LEN", (1, 6), own(1, 6);
    BadRequestBufferEmpty = "OFPBRC_BUFFER_EMPTY", (1, 7), own(1, 7);
    BadRequestBufferUnknown = "OFPBRC_BUFFER_UNKNOWN", (1, 8), own(1, 8);
    BadRequestBadTableId = "OFPBRC_BAD_TABLE_ID", (1, 9), near(1, 5);
    BadRequestIsSlave = "OFPBRC_IS_SLAVE", (1, 10), near(1, 5);
    BadRequestBadPort = "OFPBRC_BAD_PORT", (1, 11), near(1, 5);
    BadRequestBadPacket = "OFPBRC_BAD_PACKET", (1, 12), near(1, 6);
    BadRequestMultipartBufferOverflow =
        "OFPBRC_MULTIPART_BUFFER_OVERFLOW", (1, 13), near(1, 5);
    BadActionBadType = "OFPBAC_BAD_TYPE", (2, 0), own(2, 0);
    BadActionBadLen = "OFPBAC_BAD_LEN", (2, 1), own(2, 1);
    BadActionBadExperimenter = "OFPBAC_BAD_EXPERIMENTER", (2, 2), own(2, 2);
    BadActionBadExpType = "OFPBAC_BAD_EXP_TYPE", (2, 3), own(2, 3);
    BadActionBadOutPort = "OFPBAC_BAD_OUT_PORT", (2, 4), own(2, 4);
    BadActionBadArgument = "OFPBAC_BAD_ARGUMENT", (2, 5), own(2, 5);
    BadActionEperm = "OFPBAC_EPERM", (2, 6), own(2, 6);
    BadActionTooMany = "OFPBAC_TOO_MANY", (2, 7), own(2, 7);
    BadActionBadQueue = "OFPBAC_BAD_QUEUE", (2, 8), own(2, 8);
    BadActionBadOutGroup = "OFPBAC_BAD_OUT_GROUP", (2, 9), near(2, 5);
    BadActionMatchInconsistent = "OFPBAC_MATCH_INCONSISTENT", (2, 10), near(3, 5);
    BadActionUnsupportedOrder = "OFPBAC_UNSUPPORTED_ORDER", (2, 11), near(3, 5);
    BadActionBadTag = "OFPBAC_BAD_TAG", (2, 12), near(2, 5);
    BadActionBadSetType = "OFPBAC_BAD_SET_TYPE", (2, 13), near(2, 5);
    BadActionBadSetLen = "OFPBAC_BAD_SET_LEN", (2, 14), near(2, 1);
    BadActionBadSetArgument = "OFPBAC_BAD_SET_ARGUMENT", (2, 15), near(2, 5);
    BadInstructionUnknownInst = "OFPBIC_UNKNOWN_INST", (3, 0), near(3, 5);
    BadInstructionUnsupInst = "OFPBIC_UNSUP_INST", (3, 1), near(3, 5);
    BadInstructionBadTableId = "OFPBIC_BAD_TABLE_ID", (3, 2), near(3, 5);
    BadInstructionUnsupMetadata = "OFPBIC_UNSUP_METADATA", (3, 3), near(3, 5);
    BadInstructionUnsupMetadataMask = "OFPBIC_UNSUP_METADATA_MASK", (3, 4), near(3, 5);
    BadInstructionBadExperimenter = "OFPBIC_BAD_EXPERIMENTER", (3, 5), near(3, 5);
    BadInstructionBadExpType = "OFPBIC_BAD_EXP_TYPE", (3, 6), near(3, 5);
    BadInstructionBadLen = "OFPBIC_BAD_LEN", (3, 7), near(1, 6);
    BadInstructionEperm = "OFPBIC_EPERM", (3, 8), near(3, 2);
    BadMatchBadType = "OFPBMC_BAD_TYPE", (4, 0), near(1, 6);
    BadMatchBadLen = "OFPBMC_BAD_LEN", (4, 1), near(1, 6);
    BadMatchBadTag = "OFPBMC_BAD_TAG", (4, 2), near(1, 6);
    BadMatchBadDlAddrMask = "OFPBMC_BAD_DL_ADDR_MASK", (4, 3), near(1, 6);
    BadMatchBadNwAddrMask = "OFPBMC_BAD_NW_ADDR_MASK", (4, 4), near(1, 6);
    BadMatchBadWildcards = "OFPBMC_BAD_WILDCARDS", (4, 5), near(1, 6);
    BadMatchBadField = "OFPBMC_BAD_FIELD", (4, 6), near(1, 6);
    BadMatchBadValue = "OFPBMC_BAD_VALUE", (4, 7), near(1, 6);
    BadMatchBadMask = "OFPBMC_BAD_MASK", (4, 8), near(1, 6);
    BadMatchBadPrereq = "OFPBMC_BAD_PREREQ", (4, 9), near(1, 6);
    BadMatchDupField = "OFPBMC_DUP_FIELD", (4, 10), near(1, 6);
    BadMatchEperm = "OFPBMC_EPERM", (4, 11), near(1, 5);
    FlowModFailedUnknown = "OFPFMFC_UNKNOWN", (5, 0), near(3, 5);
    FlowModFailedTableFull = "OFPFMFC_TABLE_FULL", (5, 1), own(3, 0);
    FlowModFailedBadTableId = "OFPFMFC_BAD_TABLE_ID", (5, 2), near(3, 2);
    FlowModFailedOverlap = "OFPFMFC_OVERLAP", (5, 3), own(3, 1);
    FlowModFailedEperm = "OFPFMFC_EPERM", (5, 4), own(3, 2);
    FlowModFailedBadTimeout = "OFPFMFC_BAD_TIMEOUT", (5, 5), own(3, 3);
    FlowModFailedBadCommand = "OFPFMFC_BAD_COMMAND", (5, 6), own(3, 4);
    FlowModFailedBadFlags = "OFPFMFC_BAD_FLAGS", (5, 7), near(3, 5);
    FlowModFailedUnsupported = "OFPFMFC_UNSUPPORTED", (5, 0), own(3, 5);
    GroupModFailedGroupExists = "OFPGMFC_GROUP_EXISTS", (6, 0), near(1, 1);
    GroupModFailedInvalidGroup = "OFPGMFC_INVALID_GROUP", (6, 1), near(1, 1);
    GroupModFailedWeightUnsupported = "OFPGMFC_WEIGHT_UNSUPPORTED", (6, 2), near(1, 1);
    GroupModFailedOutOfGroups = "OFPGMFC_OUT_OF_GROUPS", (6, 3), near(1, 1);
    GroupModFailedOutOfBuckets = "OFPGMFC_OUT_OF_BUCKETS", (6, 4), near(1, 1);
    GroupModFailedChainingUnsupported = "OFPGMFC_CHAINING_UNSUPPORTED", (6, 5), near(1, 1);
    GroupModFailedWatchUnsupported = "OFPGMFC_WATCH_UNSUPPORTED", (6, 6), near(1, 1);
    GroupModFailedLoop = "OFPGMFC_LOOP", (6, 7), near(1, 1);
    GroupModFailedUnknownGroup = "OFPGMFC_UNKNOWN_GROUP", (6, 8), near(1, 1);
    GroupModFailedChainedGroup = "OFPGMFC_CHAINED_GROUP", (6, 9), near(1, 1);
    GroupModFailedBadType = "OFPGMFC_BAD_TYPE", (6, 10), near(1, 1);
    GroupModFailedBadCommand = "OFPGMFC_BAD_COMMAND", (6, 11), near(1, 1);
    GroupModFailedBadBucket = "OFPGMFC_BAD_BUCKET", (6, 12), near(1, 1);
    GroupModFailedBadWatch = "OFPGMFC_BAD_WATCH", (6, 13), near(1, 1);
    GroupModFailedEperm = "OFPGMFC_EPERM", (6, 14), near(1, 5);
    PortModFailedBadPort = "OFPPMFC_BAD_PORT", (7, 0), own(4, 0);
    PortModFailedBadHwAddr = "OFPPMFC_BAD_HW_ADDR", (7, 1), own(4, 1);
    PortModFailedBadConfig = "OFPPMFC_BAD_CONFIG", (7, 2), near(1, 5);
    PortModFailedBadAdvertise = "OFPPMFC_BAD_ADVERTISE", (7, 3), near(1, 5);
    PortModFailedEperm = "OFPPMFC_EPERM", (7, 4), near(1, 5);
    TableModFailedBadTable = "OFPTMFC_BAD_TABLE", (8, 0), near(1, 1);
    TableModFailedBadConfig = "OFPTMFC_BAD_CONFIG", (8, 1), near(1, 1);
    TableModFailedEperm = "OFPTMFC_EPERM", (8, 2), near(1, 5);
    QueueOpFailedBadPort = "OFPQOFC_BAD_PORT", (9, 0), own(5, 0);
    QueueOpFailedBadQueue = "OFPQOFC_BAD_QUEUE", (9, 1), own(5, 1);
    QueueOpFailedEperm = "OFPQOFC_EPERM", (9, 2), own(5, 2);
    SwitchConfigFailedBadFlags = "OFPSCFC_BAD_FLAGS", (10, 0), near(1, 5);
    SwitchConfigFailedBadLen = "OFPSCFC_BAD_LEN", (10, 1), near(1, 5);
    SwitchConfigFailedEperm = "OFPSCFC_EPERM", (10, 2), near(1, 5);
    RoleRequestFailedStale = "OFPRRFC_STALE", (11, 0), near(1, 1);
    RoleRequestFailedUnsup = "OFPRRFC_UNSUP", (11, 1), near(1, 1);
    RoleRequestFailedBadRole = "OFPRRFC_BAD_ROLE", (11, 2), near(1, 1);
    MeterModFailedUnknown = "OFPMMFC_UNKNOWN", (12, 0), near(1, 1);
    MeterModFailedMeterExists = "OFPMMFC_METER_EXISTS", (12, 1), near(1, 1);
    MeterModFailedInvalidMeter = "OFPMMFC_INVALID_METER", (12, 2), near(1, 1);
    MeterModFailedUnknownMeter = "OFPMMFC_UNKNOWN_METER", (12, 3), near(1, 1);
    MeterModFailedBadCommand = "OFPMMFC_BAD_COMMAND", (12, 4), near(1, 1);
    MeterModFailedBadFlags = "OFPMMFC_BAD_FLAGS", (12, 5), near(1, 1);
    MeterModFailedBadRate = "OFPMMFC_BAD_RATE", (12, 6), near(1, 1);
    MeterModFailedBadBurst = "OFPMMFC_BAD_BURST", (12, 7), near(1, 1);
    MeterModFailedBadBand = "OFPMMFC_BAD_BAND", (12, 8), near(1, 1);
    MeterModFailedBadBandValue = "OFPMMFC_BAD_BAND_VALUE", (12, 9), near(1, 1);
    MeterModFailedOutOfMeters = "OFPMMFC_OUT_OF_METERS", (12, 10), near(1, 1);
    MeterModFailedOutOfBands = "OFPMMFC_OUT_OF_BANDS", (12, 11), near(1, 1);
    TableFeaturesFailedBadTable = "OFPTFFC_BAD_TABLE", (13, 0), near(1, 1);
    TableFeaturesFailedBadMetadata = "OFPTFFC_BAD_METADATA", (13, 1), near(1, 1);
    TableFeaturesFailedBadType = "OFPTFFC_BAD_TYPE", (13, 2), near(1, 1);
    TableFeaturesFailedBadLen = "OFPTFFC_BAD_LEN", (13, 3), near(1, 6);
    TableFeaturesFailedBadArgument = "OFPTFFC_BAD_ARGUMENT", (13, 4), near(1, 1);
    TableFeaturesFailedEperm = "OFPTFFC_EPERM", (13, 5), near(1, 5);
}

impl Reason {
    /// Its type and code in a version.
    pub const fn numbers(self, version: Version) -> (u16, u16) {
        let (v13, (kind, code, _)) = self.table();
        match version {
            Version::V10 => (kind, code),
            Version::V13 => v13,
        }
    }

    /// The reason that a version gives these numbers.
    pub fn from_numbers(version: Version, kind: u16, code: u16) -> Option<Reason> {
        let defined = |reason: &Reason| version == Version::V13 || reason.table().1.2;
        // The first: OFPFMFC_UNSUPPORTED, which 1.3 lacks, has there the number of OFPFMFC_UNKNOWN.
        Reason::ALL
            .iter()
            .copied()
            .find(|reason| defined(reason) && reason.numbers(version) == (kind, code))
    }
}

/// Why a message cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The version has no such thing.
    #[error("{object}: {version} has none")]
    NotInVersion {
        /// What it lacks.
        object: &'static str,
        /// The version.
        version: Version,
    },
    /// A length field has 16 bits.
    #[error("{object}: {length} bytes are more than 65535")]
    TooLong {
        /// The part that is too long.
        object: &'static str,
        /// Its length in bytes.
        length: usize,
    },
    /// A value that the wire cannot carry.
    #[error("{object}: the value does not fit on the wire")]
    Value {
        /// The value's object.
        object: &'static str,
    },
}
