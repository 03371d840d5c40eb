//! Macros for the numbers of the protocol: sets of flags, and enums that keep numbers they do not know.

/// An enum of known numbers; any other is kept as `Other`, so that nothing is lost.
macro_rules! numbers {
    ($(#[$doc:meta])* $name:ident: $int:ty { $($(#[$of:meta])* $variant:ident = $value:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$of])* $variant,)+
            /// A number that the specification does not have.
            Other($int),
        }

        impl $name {
            /// Every number that the specification has.
            pub const KNOWN: &[$name] = &[$($name::$variant,)+];
        }

        impl From<$int> for $name {
            fn from(number: $int) -> $name {
                match number {
                    $($value => $name::$variant,)+
                    other => $name::Other(other),
                }
            }
        }

        impl From<$name> for $int {
            fn from(name: $name) -> $int {
                match name {
                    $($name::$variant => $value,)+
                    $name::Other(number) => number,
                }
            }
        }
    };
}

/// A set of flags.
macro_rules! flags {
    ($(#[$doc:meta])* $name:ident: $int:ty { $($(#[$of:meta])* $flag:ident = $value:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub $int);

        impl $name {
            $($(#[$of])* pub const $flag: $name = $name($value);)*

            /// Whether all flags of `other` are in it.
            pub const fn has(self, other: $name) -> bool {
                self.0 & other.0 == other.0
            }

            /// Both sets together.
            #[must_use]
            pub const fn with(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }

            /// Without the flags of `other`.
            #[must_use]
            pub const fn without(self, other: $name) -> $name {
                $name(self.0 & !other.0)
            }
        }

        impl std::ops::BitOr for $name {
            type Output = $name;

            fn bitor(self, other: $name) -> $name {
                self.with(other)
            }
        }
    };
}
