//! What a call to a running lab is: its operation as data, its values, and its answer.
//!
//! [`calls`](crate::service::calls) lists all calls. The server, the client and the document get each one's values through
//! [`Read`], [`Write`] and [`Describe`], and all calls through [`Each`].

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;
use utoipa::openapi::schema::Schema;

use crate::service::{LogMark, Service};
use crate::{Error, Result};

/// What a caller must be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Nothing is different afterwards.
    Reads,
    /// Something is made or set.
    Changes,
    /// Something is removed.
    Destroys,
}

impl Rights {
    /// As the API's document says it.
    pub fn word(self) -> &'static str {
        match self {
            Rights::Reads => "reads",
            Rights::Changes => "changes",
            Rights::Destroys => "destroys",
        }
    }
}

/// How long a call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// It is answered at once from what the lab process and the kernel know.
    Moments,
    /// Another process is asked.
    Asking,
    /// It makes or removes objects, or tests everything.
    Long,
    /// It takes the lab down.
    Last,
}

/// How many objects an answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// One.
    One,
    /// A list.
    Many,
}

/// An answer of one object.
pub type One<T> = T;

/// An answer that is a list.
pub type Many<T> = Vec<T>;

/// A call as data.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// Unique among all.
    pub name: &'static str,
    /// The lines of its documentation: a summary, and more after an empty line.
    pub about: &'static [&'static str],
    /// The HTTP method.
    pub method: &'static str,
    /// The path, with `{NAME}` for names.
    pub path: &'static str,
    /// What a caller must be allowed to do.
    pub rights: Rights,
    /// How long it takes.
    pub takes: Takes,
    /// Why it is refused inside of nodes, if it is.
    pub outside: Option<&'static str>,
    /// Whether it makes an object below its path.
    pub makes: bool,
    /// Whether the answer is a list.
    pub count: Count,
    /// What its answer says.
    pub said: &'static str,
    /// Statuses of refusals that its parameters do not tell of, and when they come.
    pub refusals: &'static [(u16, &'static str)],
}

/// A call: its values.
pub trait Call: Clone + fmt::Debug + Send + Sync + 'static {
    /// What an answer consists of.
    type Item: ToSchema;
    /// The answer.
    type Answer: Serialize + DeserializeOwned + Named + Send + 'static;

    /// The call as data.
    const OPERATION: Operation;

    /// Tells of each value.
    fn describe(to: &mut impl Describe);

    /// Reads the values.
    ///
    /// # Errors
    /// One is missing, or cannot be used.
    fn read<R: Read>(from: &R) -> std::result::Result<Self, R::Error>;

    /// Writes the values.
    fn write(&self, to: &mut impl Write);

    /// Puts names of a place inside of the lab into the lab's words.
    ///
    /// # Errors
    /// What is named may not be reached from there.
    fn enter(&mut self, inside: &dyn Inside) -> Result<()>;

    /// How much longer it may take than others of its kind.
    fn also_takes(&self) -> Duration {
        Duration::ZERO
    }

    /// How long to wait while the answer has nothing, for calls that can.
    fn waits(&self) -> Option<Duration> {
        None
    }

    /// Whether an answer has something that was waited for.
    fn has(_: &Self::Answer) -> bool {
        true
    }

    /// While this is the same, so is the answer.
    fn mark(&self, _: &dyn Service) -> Result<Option<LogMark>> {
        Ok(None)
    }

    /// Whether it is also answered as a stream of events.
    const STREAMS: bool = false;

    /// The same call for what comes after the event with this id, for calls that stream.
    #[must_use]
    fn after(&self, _id: &str, _wait: Duration) -> Self {
        self.clone()
    }

    /// The events of an answer, for calls that stream.
    fn told(_: &Self::Answer) -> Vec<Told> {
        vec![]
    }

    /// The name of the object that was made, which is below the call's path.
    fn made(_: &Self::Answer) -> Option<&str> {
        None
    }
}

/// An event as a stream has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Where it is.
    pub id: String,
    /// What it is.
    pub kind: &'static str,
    /// The event as JSON, in one line.
    pub json: String,
}

impl Told {
    /// An event of an answer.
    pub fn of(id: &str, kind: &'static str, event: &impl Serialize) -> Told {
        // Serialising plain data to memory cannot fail.
        Told { id: id.to_owned(), kind, json: serde_json::to_string(event).unwrap_or_default() }
    }
}

/// Who answers a call.
pub trait Answers<C: Call> {
    /// Does what is asked. May block.
    ///
    /// # Errors
    /// Why it is not done.
    fn answer(&self, call: C) -> Result<C::Answer>;
}

/// What is done with each call.
pub trait Each {
    /// Does it.
    fn call<C: Call>(&mut self)
    where
        dyn Service: Answers<C>;
}

/// Where values of a call are read from.
pub trait Read {
    /// Why one cannot be used.
    type Error;

    /// A name in the path.
    fn path<T: Parameter>(&self, name: &str) -> std::result::Result<T, Self::Error>;

    /// A parameter of the query.
    fn query<T: Parameter>(&self, name: &str) -> std::result::Result<T, Self::Error>;

    /// The body.
    fn body<T: DeserializeOwned>(&self, name: &str) -> std::result::Result<T, Self::Error>;

    /// What only a place inside of the lab sets.
    fn place<T: Default>(&self, _: &str) -> std::result::Result<T, Self::Error> {
        Ok(T::default())
    }
}

/// Where values of a call are written to.
pub trait Write {
    /// A name in the path.
    fn path<T: Parameter>(&mut self, name: &str, value: &T);

    /// A parameter of the query.
    fn query<T: Parameter>(&mut self, name: &str, value: &T);

    /// The body.
    fn body<T: Serialize>(&mut self, name: &str, value: &T);

    /// What only a place inside of the lab sets.
    fn place<T>(&mut self, _: &str, _: &T) {}
}

/// To whom values of a call are told.
pub trait Describe {
    /// A name in the path.
    fn path<T: Parameter>(&mut self, name: &str, about: &[&str]);

    /// A parameter of the query.
    fn query<T: Parameter>(&mut self, name: &str, about: &[&str]);

    /// The body.
    fn body<T: ToSchema>(&mut self, name: &str, about: &[&str]);

    /// What only a place inside of the lab sets.
    fn place<T>(&mut self, _: &str, _: &[&str]) {}
}

/// A place inside of a lab, from where only a part of it is seen, under shorter names.
pub trait Inside {
    /// Puts a node's name into the lab's words; the node of the place itself only if `own`.
    fn node(&self, name: &mut String, own: bool) -> Result<()>;

    /// The same for an end of a link to make, `NODE` or `NODE:IFACE`.
    fn end(&self, end: &mut String) -> Result<()>;

    /// The same for an interface to move, `NODE:IFACE`.
    fn interface(&self, interface: &mut String) -> Result<()>;

    /// The same for a link or an end of it.
    fn link(&self, link: &mut String) -> Result<()>;

    /// The place.
    fn within(&self) -> Within;

    /// The name of the lab that is seen: the node's own.
    fn lab(&self) -> String;

    /// A refusal.
    fn refused(&self, reason: &str) -> Error;

    /// A node's name as it is called here; `None` for one that is not seen.
    fn name_of(&self, node: &str) -> Option<String>;

    /// A link's name as it is called here; `None` for one that is not seen.
    fn link_of(&self, link: &str) -> Option<String>;

    /// Puts nodes' names in a filter expression into the lab's words.
    fn expression(&self, expression: &mut String) -> Result<()>;

    /// A filter expression in the words of this place.
    fn expression_of(&self, expression: &str) -> String;

    /// A text about objects that are seen here, in the words of this place.
    fn text(&self, text: &str) -> String;
}

/// A value that may have names of a lab in it.
pub trait Named {
    /// Puts them into the lab's words.
    ///
    /// # Errors
    /// What is named may not be reached from there.
    fn enter(&mut self, _: &dyn Inside) -> Result<()> {
        Ok(())
    }

    /// Puts the lab's words into those of a place. Returns whether the value is seen there.
    fn leave(&mut self, _: &dyn Inside) -> bool {
        true
    }
}

impl<T: Named> Named for Vec<T> {
    fn leave(&mut self, inside: &dyn Inside) -> bool {
        self.retain_mut(|one| one.leave(inside));
        true
    }
}

/// The part of the lab that is meant: all, or what is in this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Within(pub Option<netloom_model::plan::NodeId>);

impl Within {
    /// The whole lab.
    pub const ALL: Within = Within(None);
}

impl Named for Within {
    fn enter(&mut self, inside: &dyn Inside) -> Result<()> {
        *self = inside.within();
        Ok(())
    }
}

/// A value in a path or a query.
pub trait Parameter: Sized + Named {
    /// What a refusal with status 404 says, for names.
    const UNKNOWN: Option<&'static str> = None;
    /// Whether it must be there.
    const REQUIRED: bool = false;

    /// Reads it.
    ///
    /// # Errors
    /// What is wrong with it.
    fn read(text: Option<&str>) -> std::result::Result<Self, String>;

    /// The text, unless it means what is meant without it: a process of an earlier version may not know the name.
    fn write(&self) -> Option<String>;

    /// Its schema.
    fn schema() -> Schema;
}

/// Makes a call of each row of [`calls`](crate::service::calls).
macro_rules! defined {
    ($($name:ident = $row:tt do |$lab:ident, $call:ident| $run:expr;)*) => {
        $($crate::service::call::defined!(@row $name $row);)*

        /// Does something with each call.
        pub fn each(with: &mut impl $crate::service::call::Each) {
            $(with.call::<$name>();)*
        }
    };
    (@row $name:ident {
        $(#[doc = $doc:literal])+
        $method:ident $path:literal as $id:ident, $rights:ident, $takes:ident $(, outside $why:literal)?;
        $($(#[doc = $about:literal])+ $place:ident $field:ident: $kind:ty;)*
        => $count:ident $item:ty: $said:literal
        $(, $status:literal $when:literal)*
        $(, makes |$answer:ident| $made:expr)?
        $(; $($more:item)+)?
    }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug)]
        pub struct $name {
            $($(#[doc = $about])+ pub $field: $kind,)*
        }

        impl $crate::service::call::Call for $name {
            type Item = $item;
            type Answer = $crate::service::call::$count<$item>;

            const OPERATION: $crate::service::call::Operation = $crate::service::call::Operation {
                name: stringify!($id),
                about: &[$($doc),+],
                method: stringify!($method),
                path: $path,
                rights: $crate::service::call::Rights::$rights,
                takes: $crate::service::call::Takes::$takes,
                outside: $crate::service::call::defined!(@why $($why)?),
                makes: $crate::service::call::defined!(@makes $($made)?),
                count: $crate::service::call::Count::$count,
                said: $said,
                refusals: &[$(($status, $when)),*],
            };

            fn describe(_to: &mut impl $crate::service::call::Describe) {
                $(_to.$place::<$kind>(stringify!($field), &[$($about),+]);)*
            }

            fn read<R: $crate::service::call::Read>(_from: &R) -> std::result::Result<Self, R::Error> {
                Ok($name { $($field: _from.$place(stringify!($field))?,)* })
            }

            fn write(&self, _to: &mut impl $crate::service::call::Write) {
                $(_to.$place(stringify!($field), &self.$field);)*
            }

            fn enter(&mut self, _inside: &dyn $crate::service::call::Inside) -> $crate::Result<()> {
                $($crate::service::call::Named::enter(&mut self.$field, _inside)?;)*
                Ok(())
            }

            $(fn made($answer: &Self::Answer) -> Option<&str> {
                Some($made)
            })?

            $($($more)+)?
        }
    };
    (@makes) => { false };
    (@makes $made:expr) => { true };
    (@why) => { None };
    (@why $why:literal) => { Some($why) };
}
pub(crate) use defined;
