//! Atomic operations on numbers in memory.

/// Operation on each number of the target. The discriminants are libfabric's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are those of the field")]
pub enum AtomicOp {
    Min = 0,
    Max,
    Sum,
    Prod,
    LogicalOr,
    LogicalAnd,
    Or,
    And,
    LogicalXor,
    Xor,
    Read,
    Write,
    Swap,
    SwapNe,
    SwapLe,
    SwapLt,
    SwapGe,
    SwapGt,
    MaskedSwap,
}

/// Type of the numbers. The discriminants are libfabric's, which has further types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are those of the field")]
pub enum Datatype {
    I8 = 0,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    ComplexF32,
    ComplexF64,
}

impl AtomicOp {
    /// Returns the operation with libfabric's number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<AtomicOp> {
        use AtomicOp as Op;
        const ALL: [AtomicOp; 19] = [
            Op::Min,
            Op::Max,
            Op::Sum,
            Op::Prod,
            Op::LogicalOr,
            Op::LogicalAnd,
            Op::Or,
            Op::And,
            Op::LogicalXor,
            Op::Xor,
            Op::Read,
            Op::Write,
            Op::Swap,
            Op::SwapNe,
            Op::SwapLe,
            Op::SwapLt,
            Op::SwapGe,
            Op::SwapGt,
            Op::MaskedSwap,
        ];
        ALL.get(number as usize).copied()
    }

    /// Returns whether the operation takes a second operand to compare with.
    #[must_use]
    pub fn compares(self) -> bool {
        self as u8 >= AtomicOp::Swap as u8
    }

    /// Returns whether the operation supports a datatype.
    #[must_use]
    pub fn supports(self, datatype: Datatype) -> bool {
        use AtomicOp as Op;
        match datatype {
            Datatype::ComplexF32 | Datatype::ComplexF64 => matches!(
                self,
                Op::Sum
                    | Op::Prod
                    | Op::LogicalOr
                    | Op::LogicalAnd
                    | Op::LogicalXor
                    | Op::Read
                    | Op::Write
                    | Op::Swap
                    | Op::SwapNe
            ),
            Datatype::F32 | Datatype::F64 => !matches!(self, Op::Or | Op::And | Op::Xor | Op::MaskedSwap),
            _ => true,
        }
    }
}

impl Datatype {
    /// Returns the datatype with libfabric's number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Datatype> {
        use Datatype as Type;
        const ALL: [Datatype; 12] = [
            Type::I8,
            Type::U8,
            Type::I16,
            Type::U16,
            Type::I32,
            Type::U32,
            Type::I64,
            Type::U64,
            Type::F32,
            Type::F64,
            Type::ComplexF32,
            Type::ComplexF64,
        ];
        ALL.get(number as usize).copied()
    }

    /// Returns the size of a number in bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Datatype::I8 | Datatype::U8 => 1,
            Datatype::I16 | Datatype::U16 => 2,
            Datatype::I32 | Datatype::U32 | Datatype::F32 => 4,
            Datatype::I64 | Datatype::U64 | Datatype::F64 | Datatype::ComplexF32 => 8,
            Datatype::ComplexF64 => 16,
        }
    }
}

macro_rules! of_integers {
    ($name:ident, $type:ty) => {
        fn $name(op: AtomicOp, old: $type, operand: $type, compare: $type) -> $type {
            let (zero, swap) = (0 as $type, |when: bool| if when { operand } else { old });
            match op {
                AtomicOp::Min => old.min(operand),
                AtomicOp::Max => old.max(operand),
                AtomicOp::Sum => old.wrapping_add(operand),
                AtomicOp::Prod => old.wrapping_mul(operand),
                AtomicOp::LogicalOr => <$type>::from(old != zero || operand != zero),
                AtomicOp::LogicalAnd => <$type>::from(old != zero && operand != zero),
                AtomicOp::LogicalXor => <$type>::from((old != zero) != (operand != zero)),
                AtomicOp::Or => old | operand,
                AtomicOp::And => old & operand,
                AtomicOp::Xor => old ^ operand,
                AtomicOp::Read => old,
                AtomicOp::Write => operand,
                AtomicOp::Swap => swap(compare == old),
                AtomicOp::SwapNe => swap(compare != old),
                AtomicOp::SwapLe => swap(compare <= old),
                AtomicOp::SwapLt => swap(compare < old),
                AtomicOp::SwapGe => swap(compare >= old),
                AtomicOp::SwapGt => swap(compare > old),
                AtomicOp::MaskedSwap => (operand & compare) | (old & !compare),
            }
        }
    };
}

of_integers!(of_i8, i8);
of_integers!(of_u8, u8);
of_integers!(of_i16, i16);
of_integers!(of_u16, u16);
of_integers!(of_i32, i32);
of_integers!(of_u32, u32);
of_integers!(of_i64, i64);
of_integers!(of_u64, u64);

macro_rules! of_floats {
    ($name:ident, $complex:ident, $type:ty) => {
        #[allow(clippy::float_cmp, reason = "that is what was asked for")]
        fn $name(op: AtomicOp, old: $type, operand: $type, compare: $type) -> $type {
            let (zero, swap) = (0.0, |when: bool| if when { operand } else { old });
            match op {
                AtomicOp::Min => {
                    if operand < old {
                        operand
                    } else {
                        old
                    }
                }
                AtomicOp::Max => {
                    if operand > old {
                        operand
                    } else {
                        old
                    }
                }
                AtomicOp::Sum => old + operand,
                AtomicOp::Prod => old * operand,
                AtomicOp::LogicalOr => <$type>::from(old != zero || operand != zero),
                AtomicOp::LogicalAnd => <$type>::from(old != zero && operand != zero),
                AtomicOp::LogicalXor => <$type>::from((old != zero) != (operand != zero)),
                AtomicOp::Write => operand,
                AtomicOp::Swap => swap(compare == old),
                AtomicOp::SwapNe => swap(compare != old),
                AtomicOp::SwapLe => swap(compare <= old),
                AtomicOp::SwapLt => swap(compare < old),
                AtomicOp::SwapGe => swap(compare >= old),
                AtomicOp::SwapGt => swap(compare > old),
                // A read changes nothing; the other operations do not support floats.
                AtomicOp::Read | AtomicOp::Or | AtomicOp::And | AtomicOp::Xor | AtomicOp::MaskedSwap => old,
            }
        }

        #[allow(clippy::float_cmp, reason = "that is what was asked for")]
        fn $complex(op: AtomicOp, old: [$type; 2], operand: [$type; 2], compare: [$type; 2]) -> [$type; 2] {
            let (a, b) = (old, operand);
            let some = |number: [$type; 2]| number != [0.0, 0.0];
            match op {
                AtomicOp::Sum => [a[0] + b[0], a[1] + b[1]],
                AtomicOp::Prod => [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]],
                AtomicOp::LogicalOr => [<$type>::from(some(a) || some(b)), 0.0],
                AtomicOp::LogicalAnd => [<$type>::from(some(a) && some(b)), 0.0],
                AtomicOp::LogicalXor => [<$type>::from(some(a) != some(b)), 0.0],
                AtomicOp::Write => b,
                AtomicOp::Swap if compare == a => b,
                AtomicOp::SwapNe if compare != a => b,
                _ => a,
            }
        }
    };
}

of_floats!(of_f32, of_complex_f32, f32);
of_floats!(of_f64, of_complex_f64, f64);

macro_rules! each {
    ($apply:ident, $type:ty, $op:expr, $target:expr, $operands:expr, $compares:expr) => {{
        const BYTES: usize = size_of::<$type>();
        let number = |bytes: Option<&[u8; BYTES]>| {
            bytes.map_or(<$type>::default(), |bytes| <$type>::from_le_bytes(*bytes))
        };
        let (operands, compares) = ($operands.as_chunks::<BYTES>().0, $compares.as_chunks::<BYTES>().0);
        for (index, target) in $target.as_chunks_mut::<BYTES>().0.iter_mut().enumerate() {
            let (operand, compare) = (number(operands.get(index)), number(compares.get(index)));
            *target = $apply($op, <$type>::from_le_bytes(*target), operand, compare).to_le_bytes();
        }
    }};
}

macro_rules! each_complex {
    ($apply:ident, $type:ty, $op:expr, $target:expr, $operands:expr, $compares:expr) => {{
        const BYTES: usize = size_of::<$type>();
        let number = |bytes: Option<&[[u8; BYTES]]>| match bytes {
            Some([real, imaginary]) => [<$type>::from_le_bytes(*real), <$type>::from_le_bytes(*imaginary)],
            _ => [0.0; 2],
        };
        let (operands, compares) = ($operands.as_chunks::<BYTES>().0, $compares.as_chunks::<BYTES>().0);
        for (index, target) in $target.as_chunks_mut::<BYTES>().0.chunks_exact_mut(2).enumerate() {
            let at = index * 2..index * 2 + 2;
            let (operand, compare) = (number(operands.get(at.clone())), number(compares.get(at)));
            let [real, imaginary] = $apply($op, number(Some(&*target)), operand, compare);
            target[0] = real.to_le_bytes();
            target[1] = imaginary.to_le_bytes();
        }
    }};
}

/// Applies an operation to every number of `target`. Numbers are little-endian, as on all supported nodes.
pub(crate) fn apply(op: AtomicOp, datatype: Datatype, target: &mut [u8], operands: &[u8], compares: &[u8]) {
    match datatype {
        Datatype::I8 => each!(of_i8, i8, op, target, operands, compares),
        Datatype::U8 => each!(of_u8, u8, op, target, operands, compares),
        Datatype::I16 => each!(of_i16, i16, op, target, operands, compares),
        Datatype::U16 => each!(of_u16, u16, op, target, operands, compares),
        Datatype::I32 => each!(of_i32, i32, op, target, operands, compares),
        Datatype::U32 => each!(of_u32, u32, op, target, operands, compares),
        Datatype::I64 => each!(of_i64, i64, op, target, operands, compares),
        Datatype::U64 => each!(of_u64, u64, op, target, operands, compares),
        Datatype::F32 => each!(of_f32, f32, op, target, operands, compares),
        Datatype::F64 => each!(of_f64, f64, op, target, operands, compares),
        Datatype::ComplexF32 => each_complex!(of_complex_f32, f32, op, target, operands, compares),
        Datatype::ComplexF64 => each_complex!(of_complex_f64, f64, op, target, operands, compares),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_i32s(op: AtomicOp, old: i32, operand: i32, compare: i32) -> i32 {
        let mut target = old.to_le_bytes();
        apply(op, Datatype::I32, &mut target, &operand.to_le_bytes(), &compare.to_le_bytes());
        i32::from_le_bytes(target)
    }

    #[test]
    fn operations_compute_their_results() {
        use AtomicOp as Op;
        for (op, expected) in [
            (Op::Min, -3),
            (Op::Max, 5),
            (Op::Sum, 2),
            (Op::Prod, -15),
            (Op::LogicalAnd, 1),
            (Op::LogicalXor, 0),
            (Op::Or, -3 | 5),
            (Op::Xor, -3 ^ 5),
            (Op::Read, -3),
            (Op::Write, 5),
            (Op::Swap, -3),
            (Op::SwapNe, 5),
            (Op::SwapLe, -3),
            (Op::SwapGt, 5),
        ] {
            assert_eq!(of_i32s(op, -3, 5, 7), expected, "{op:?}");
        }
        assert_eq!(of_i32s(Op::Swap, 7, 5, 7), 5);
        assert_eq!(of_i32s(Op::MaskedSwap, 0b1010, 0b0101, 0b0011), 0b1001);
        assert_eq!(of_i32s(Op::Sum, i32::MAX, 1, 0), i32::MIN);
    }

    #[test]
    fn numbers_are_little_endian_and_complex_ones_pairs() {
        let mut target: Vec<u8> = [1.5_f64, 2.0].iter().flat_map(|number| number.to_le_bytes()).collect();
        let operand: Vec<u8> = [2.0_f64, 1.0].iter().flat_map(|number| number.to_le_bytes()).collect();
        apply(AtomicOp::Prod, Datatype::ComplexF64, &mut target, &operand, &[]);
        let expected: Vec<u8> = [1.0_f64, 5.5].iter().flat_map(|number| number.to_le_bytes()).collect();
        assert_eq!(target, expected);
        let mut target = [1, 0, 2, 0];
        apply(AtomicOp::Sum, Datatype::U16, &mut target, &[255, 0, 0, 1], &[]);
        assert_eq!(target, [0, 1, 2, 1]);
    }

    #[test]
    fn numbers_are_those_of_libfabric() {
        assert_eq!(AtomicOp::from_number(18), Some(AtomicOp::MaskedSwap));
        assert_eq!((AtomicOp::from_number(19), Datatype::from_number(12)), (None, None));
        for number in 0..19 {
            assert_eq!(AtomicOp::from_number(number).map(|op| op as u32), Some(number));
        }
        assert_eq!(Datatype::from_number(9), Some(Datatype::F64));
        assert!(!AtomicOp::Xor.supports(Datatype::F32) && AtomicOp::Xor.supports(Datatype::I8));
    }
}
