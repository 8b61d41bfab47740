//! Macros behind the declarations of owned types.

/// Declares an owned struct together with its view in a message. Like [`record!`](crate::record), but for
/// owned types.
#[macro_export]
macro_rules! owned_record {
    (
        $(#[$docs:meta])*
        pub struct $name:ident => $view:ident<$m:lifetime>, $form:ident $bytes:literal / $align:literal;
        $($(#[$field_docs:meta])* $field:ident @ $at:literal: $value:ty => $read:ty,)*
    ) => {
        $(#[$docs])*
        pub struct $name {
            $($(#[$field_docs])* pub $field: $value,)*
        }

        impl<$m> $crate::Body for $name {
            fn record_bytes(&self) -> u32 {
                $bytes
            }

            fn measure(&self) -> Result<usize, $crate::OverLimit> {
                let bytes = 0;
                $(
                    let name = concat!(stringify!($name), ".", stringify!($field));
                    let bytes = bytes + <$read as $crate::Holds<$value>>::outside(&self.$field, name)?;
                )*
                Ok(bytes)
            }

            #[allow(unused_variables, reason = "one without fields writes none")]
            fn fields<K: $crate::Sink + ?Sized>(
                &self,
                place: &mut $crate::encode::Place,
                at: u32,
                out: &mut $crate::encode::Out<'_, K>,
            ) {
                $(<$read as $crate::Holds<$value>>::put(&self.$field, place, at + $at, out);)*
            }
        }

        $crate::record_view! {
            $name => $view<$m>, $form $bytes / $align;
            $($(#[$field_docs])* $field @ $at => $read,)*
        }

        impl<$m> $crate::Holds<$name> for $view<$m> {
            fn outside(value: &$name, _: &'static str) -> Result<usize, $crate::OverLimit> {
                let inside = $crate::Body::measure(value)?;
                Ok($crate::record!(@outside $form $bytes) + inside)
            }

            fn put<K: $crate::Sink + ?Sized>(
                value: &$name,
                place: &mut $crate::encode::Place,
                at: u32,
                out: &mut $crate::encode::Out<'_, K>,
            ) {
                $crate::record!(@put $form value place at out);
            }

            fn own(self) -> Result<$name, $crate::Malformed> {
                Ok($name { $($field: $crate::Holds::<$value>::own(self.$field()?)?,)* })
            }
        }
    };
}

/// Declares a struct of two fields that is owned as a pair, or as a key and a value of a map.
#[macro_export]
macro_rules! owned_pair {
    (
        $name:ident => $view:ident<$m:lifetime>, $form:ident $bytes:literal / $align:literal;
        $(#[$first_docs:meta])* $first:ident @ $first_at:literal: $a:ty => $first_read:ty,
        $(#[$second_docs:meta])* $second:ident @ $second_at:literal: $b:ty => $second_read:ty,
    ) => {
        $crate::record_view! {
            $name => $view<$m>, $form $bytes / $align;
            $(#[$first_docs])* $first @ $first_at => $first_read,
            $(#[$second_docs])* $second @ $second_at => $second_read,
        }

        impl<$m> $crate::HoldsPair<$a, $b> for $view<$m> {
            fn outside_pair($first: &$a, $second: &$b) -> Result<usize, $crate::OverLimit> {
                let name = concat!(stringify!($name), ".", stringify!($first));
                let bytes = <$first_read as $crate::Holds<$a>>::outside($first, name)?;
                let name = concat!(stringify!($name), ".", stringify!($second));
                let bytes = bytes + <$second_read as $crate::Holds<$b>>::outside($second, name)?;
                Ok($crate::record!(@outside $form $bytes) + bytes)
            }

            fn put_pair<K: $crate::Sink + ?Sized>(
                $first: &$a,
                $second: &$b,
                place: &mut $crate::encode::Place,
                at: u32,
                out: &mut $crate::encode::Out<'_, K>,
            ) {
                $crate::owned_union!(@fields $form $bytes place at out;
                    $first @ $first_at: $a => $first_read, $second @ $second_at: $b => $second_read,);
            }

            fn own_pair(self) -> Result<($a, $b), $crate::Malformed> {
                let first = $crate::Holds::<$a>::own(self.$first()?)?;
                Ok((first, $crate::Holds::<$b>::own(self.$second()?)?))
            }
        }
    };
}

/// Declares an owned union together with its view in a message. Like [`union!`](crate::union), but for owned
/// types. A case may have the fields of its struct.
#[macro_export]
macro_rules! owned_union {
    (
        $(#[$docs:meta])*
        pub enum $name:ident => $m:lifetime $view:ident $(<$of:lifetime>)?;
        $($(#[$case_docs:meta])* $ordinal:literal => $case:ident
            $(($item:ident: $value:ty => $read:ty))?
            $({
                $record:ident: $struct:ty, $form:ident $bytes:literal;
                $($(#[$field_docs:meta])* $field:ident @ $at:literal: $held:ty => $field_read:ty,)*
            })?,
        )*
    ) => {
        $(#[$docs])*
        pub enum $name {
            $($(#[$case_docs])* $case $(($value))? $({ $($(#[$field_docs])* $field: $held,)* })?,)*
        }

        impl<$m> $crate::Holds<$name> for $view $(<$of>)? {
            #[allow(unused_variables, reason = "cases that carry nothing have no field")]
            fn outside(value: &$name, field: &'static str) -> Result<usize, $crate::OverLimit> {
                match value {
                    $($name::$case { $(0: $item)? $($($field),*)? } => {
                        let bytes = 0;
                        $(
                            let name = concat!(stringify!($name), ".", stringify!($case));
                            let bytes = $crate::owned::case_bytes::<$read>()
                                + <$read as $crate::Holds<$value>>::outside($item, name)?;
                        )?
                        $(
                            let bytes = $crate::owned::case_bytes::<$struct>()
                                + $crate::record!(@outside $form $bytes);
                            $(
                                let name = concat!(
                                    stringify!($name), ".", stringify!($case), ".", stringify!($field)
                                );
                                let bytes = bytes + <$field_read as $crate::Holds<$held>>::outside($field, name)?;
                            )*
                        )?
                        Ok(bytes)
                    })*
                }
            }

            fn put<K: $crate::Sink + ?Sized>(
                value: &$name,
                place: &mut $crate::encode::Place,
                at: u32,
                out: &mut $crate::encode::Out<'_, K>,
            ) {
                match value {
                    $($name::$case { $(0: $item)? $($($field),*)? } => {
                        $crate::owned_union!(@put $ordinal place at out
                            $($item: $value => $read)?
                            $({ $struct, $form $bytes; $($field @ $at: $held => $field_read,)* })?)
                    })*
                }
            }

            fn own(self) -> Result<$name, $crate::Malformed> {
                match self {
                    $($view::$case { $(0: $item)? $(0: $record)? } => {
                        $(let $item = $crate::Holds::<$value>::own($item)?;)?
                        Ok($name::$case {
                            $(0: $item)?
                            $($($field: $crate::Holds::<$held>::own($record.$field()?)?,)*)?
                        })
                    })*
                    $view::Unknown(_) => Err($crate::Malformed::Meaning { what: stringify!($name) }),
                }
            }
        }

        $crate::union_view! {
            $name => $m $view $(<$of>)?;
            $($(#[$case_docs])* $ordinal => $case $((item: $read))? $((item: $struct))?,)*
        }
    };

    (@put $ordinal:literal $place:ident $at:ident $out:ident) => { $place.bits($out, $at, $ordinal) };
    (@put $ordinal:literal $place:ident $at:ident $out:ident $item:ident: $value:ty => $read:ty) => {
        $crate::owned::put_case::<$read, K>($ordinal, $place, $at, $out, |place, at, out| {
            <$read as $crate::Holds<$value>>::put($item, place, at, out);
        })
    };
    (@put $ordinal:literal $place:ident $at:ident $out:ident {
        $struct:ty, $form:ident $bytes:literal; $($field:ident @ $field_at:literal: $held:ty => $read:ty,)*
    }) => {
        $crate::owned::put_case::<$struct, K>($ordinal, $place, $at, $out, |place, at, out| {
            $crate::owned_union!(@fields $form $bytes place at out; $($field @ $field_at: $held => $read,)*);
        })
    };
    (@fields inline $bytes:literal $place:ident $at:ident $out:ident;
        $($field:ident @ $field_at:literal: $held:ty => $read:ty,)*) => {
        $(<$read as $crate::Holds<$held>>::put($field, $place, $at + $field_at, $out);)*
    };
    (@fields apart $bytes:literal $place:ident $at:ident $out:ident;
        $($field:ident @ $field_at:literal: $held:ty => $read:ty,)*) => {
        $crate::owned::put_apart($bytes, $place, $at, $out, |place, at, out| {
            $(<$read as $crate::Holds<$held>>::put($field, place, at + $field_at, out);)*
        });
    };
}

/// Declares the messages that one side of an interface sends, as one owned type. Each has its kind, its
/// ordinal and its fields; a message that answers several calls has the ordinals of all of them.
#[macro_export]
macro_rules! owned_messages {
    (
        $(#[$docs:meta])*
        pub enum $name:ident, $m:lifetime;
        $($(#[$case_docs:meta])* $kind:ident $($ordinal:literal)|+ => $case:ident $(, $bytes:literal {
            $($(#[$field_docs:meta])* $field:ident @ $at:literal: $held:ty => $read:ty,)*
        })?;)*
    ) => {
        $(#[$docs])*
        pub enum $name {
            $($(#[$case_docs])* $case $({ $($(#[$field_docs])* $field: $held,)* })?,)*
        }

        impl<$m> $crate::Body for $name {
            fn record_bytes(&self) -> u32 {
                match self {
                    $($name::$case { .. } => 0 $(+ $bytes)?,)*
                }
            }

            fn measure(&self) -> Result<usize, $crate::OverLimit> {
                match self {
                    $($name::$case { $($($field),*)? } => {
                        let bytes = 0;
                        $($(
                            let name = concat!(stringify!($case), ".", stringify!($field));
                            let bytes = bytes + <$read as $crate::Holds<$held>>::outside($field, name)?;
                        )*)?
                        Ok(bytes)
                    })*
                }
            }

            #[allow(unused_variables, reason = "those without fields write none")]
            fn fields<K: $crate::Sink + ?Sized>(
                &self,
                place: &mut $crate::encode::Place,
                at: u32,
                out: &mut $crate::encode::Out<'_, K>,
            ) {
                match self {
                    $($name::$case { $($($field),*)? } => {
                        $($(<$read as $crate::Holds<$held>>::put($field, place, at + $at, out);)*)?
                    })*
                }
            }
        }

        impl $crate::Messages for $name {
            fn what(&self, call_ordinal: u16) -> Option<($crate::Kind, u16)> {
                match self {
                    $($name::$case { .. } => {
                        $crate::owned::what($crate::Kind::$kind, &[$($ordinal),+], call_ordinal)
                    })*
                }
            }

            #[allow(unused_variables, reason = "those without fields read none")]
            fn take(
                kind: $crate::Kind,
                ordinal: u16,
                body: $crate::Record<'_>,
                budget: &mut $crate::Budget,
            ) -> Result<Self, $crate::Malformed> {
                fn checked<'m, V: $crate::View<'m>>(
                    body: $crate::Record<'m>,
                    at: u32,
                    budget: &mut $crate::Budget,
                ) -> Result<V, $crate::Malformed> {
                    let view = V::view(body, at)?;
                    view.check(budget)?;
                    Ok(view)
                }

                fn taken<$m>(
                    kind: $crate::Kind,
                    ordinal: u16,
                    body: $crate::Record<$m>,
                    budget: &mut $crate::Budget,
                ) -> Result<$name, $crate::Malformed> {
                    match (kind, ordinal) {
                        $(($crate::Kind::$kind, $($ordinal)|+) => Ok($name::$case {
                            $($($field: $crate::Holds::<$held>::own(checked::<$read>(body, $at, budget)?)?,)*)?
                        }),)*
                        (_, ordinal) => Err($crate::Malformed::Unknown { ordinal }),
                    }
                }
                taken(kind, ordinal, body, budget)
            }
        }
    };
}
