//! Enums with variant names.

/// Declares an enum with a name for each variant. With an error text also `FromStr`.
///
/// ```
/// tautline_dsp::named_enum! {
///     /// Side of a house.
///     #[derive(Debug, Clone, Copy, PartialEq)]
///     pub enum Side {
///         /// Towards the street.
///         Front = "front",
///         /// Towards the garden.
///         Back = "back",
///     }
///     unknown: "invalid side `{}`: must be front or back"
/// }
/// assert_eq!(Side::ALL.map(Side::name), ["front", "back"]);
/// assert_eq!("back".parse(), Ok(Side::Back));
/// ```
#[macro_export]
macro_rules! named_enum {
    ($(#[$meta:meta])* $vis:vis enum $type:ident {
        $($(#[$of_variant:meta])* $variant:ident = $name:literal,)+
    } $(unknown: $unknown:literal)?) => {
        $(#[$meta])*
        $vis enum $type {
            $($(#[$of_variant])* $variant,)+
        }

        impl $type {
            /// All variants, in order.
            $vis const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Name in reports and options.
            $vis const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Variant with this name.
            $vis fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|each| each.name() == name)
            }
        }

        impl ::core::fmt::Display for $type {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.pad(self.name())
            }
        }

        $(impl ::core::str::FromStr for $type {
            type Err = ::std::string::String;

            fn from_str(text: &str) -> ::core::result::Result<Self, Self::Err> {
                Self::named(text).ok_or_else(|| ::std::format!($unknown, text))
            }
        })?
    };
}
