//! Element types and operations of reductions.

/// The type of the elements: `RCCE_INT` and so on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    /// `int`
    Int,
    /// `long`
    Long,
    /// `float`
    Float,
    /// `double`
    Double,
}

/// Operation that combines two elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Their sum; of integers modulo 2 to the power of their width.
    Sum,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// Their product; of integers as for sums.
    Product,
}

impl Element {
    /// Returns the size of an element in bytes, the same on all nodes.
    #[must_use]
    pub fn size_bytes(self) -> usize {
        match self {
            Element::Int | Element::Float => 4,
            Element::Long | Element::Double => 8,
        }
    }

    /// Converts elements between this processor's byte order and the little-endian one in which they travel.
    pub(super) fn swap(self, bytes: &mut [u8]) {
        if cfg!(target_endian = "big") {
            bytes.chunks_exact_mut(self.size_bytes()).for_each(<[u8]>::reverse);
        }
    }

    /// Combines `other` into `result`, element by element; both are little-endian and of equal length.
    pub(super) fn combine(self, operation: Operation, result: &mut [u8], other: &[u8]) {
        macro_rules! each {
            ($type:ty, $sum:expr, $product:expr) => {
                for (a, b) in result.as_chunks_mut().0.iter_mut().zip(other.as_chunks().0) {
                    let (x, y) = (<$type>::from_le_bytes(*a), <$type>::from_le_bytes(*b));
                    let value = match operation {
                        Operation::Sum => $sum(x, y),
                        Operation::Product => $product(x, y),
                        Operation::Min => {
                            if y < x {
                                y
                            } else {
                                x
                            }
                        }
                        Operation::Max => {
                            if y > x {
                                y
                            } else {
                                x
                            }
                        }
                    };
                    *a = value.to_le_bytes();
                }
            };
        }
        match self {
            Element::Int => each!(i32, i32::wrapping_add, i32::wrapping_mul),
            Element::Long => each!(i64, i64::wrapping_add, i64::wrapping_mul),
            Element::Float => each!(f32, |x: f32, y: f32| x + y, |x: f32, y: f32| x * y),
            Element::Double => each!(f64, |x: f64, y: f64| x + y, |x: f64, y: f64| x * y),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(values: &[i32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn operations_on_integers() {
        for (operation, expected) in [
            (Operation::Sum, [6, i32::MIN]),
            (Operation::Product, [-7, i32::MAX]),
            (Operation::Min, [-1, 1]),
            (Operation::Max, [7, i32::MAX]),
        ] {
            let mut result = ints(&[-1, i32::MAX]);
            Element::Int.combine(operation, &mut result, &ints(&[7, 1]));
            assert_eq!(result, ints(&expected), "{operation:?}");
        }
    }

    #[test]
    fn operations_on_numbers_of_eight_bytes() {
        let mut result = 1.5_f64.to_le_bytes();
        Element::Double.combine(Operation::Product, &mut result, &(-2.0_f64).to_le_bytes());
        assert_eq!(f64::from_le_bytes(result), -3.0);
        let mut result = i64::MAX.to_le_bytes();
        Element::Long.combine(Operation::Min, &mut result, &(1_i64 << 40).to_le_bytes());
        assert_eq!(i64::from_le_bytes(result), 1 << 40);
        let mut result = 1.0_f32.to_le_bytes();
        Element::Float.combine(Operation::Max, &mut result, &3.0_f32.to_le_bytes());
        assert_eq!(f32::from_le_bytes(result), 3.0);
    }
}
