package main

import (
	"math"

	"tombolo/internal/speaker/everything"
)

// digest is an FNV-1a hash that depends on every bit of the values.
type digest uint64

func newDigest() *digest {
	d := digest(0xcbf29ce484222325)
	return &d
}

func (d *digest) byte(one byte) { *d = (*d ^ digest(one)) * 0x100000001b3 }

func (d *digest) word(word uint64) {
	for shift := 0; shift < 64; shift += 8 {
		d.byte(byte(word >> shift))
	}
}

func (d *digest) truth(value bool) {
	if value {
		d.word(1)
	} else {
		d.word(0)
	}
}

func (d *digest) text(text string) {
	d.word(uint64(len(text)))
	for i := 0; i < len(text); i++ {
		d.byte(text[i])
	}
}

func (d *digest) point(point *everything.Point) {
	d.word(uint64(math.Float32bits(point.X)))
	d.word(uint64(math.Float32bits(point.Y)))
	d.word(uint64(point.Tag))
}

func (d *digest) entry(entry *everything.Entry) {
	d.text(entry.Name)
	d.word(uint64(len(entry.Points)))
	for i := range entry.Points {
		d.point(&entry.Points[i])
	}
	d.truth(entry.Colour != nil)
	if entry.Colour != nil {
		d.word(uint64(*entry.Colour))
	}
}

func (d *digest) shape(shape *everything.Shape) {
	d.word(uint64(shape.Case))
	switch shape.Case {
	case everything.ShapeCaseNumber:
		d.word(shape.Number)
	case everything.ShapeCasePoint:
		d.point(&shape.Point)
	case everything.ShapeCaseEntry:
		d.entry(&shape.Entry)
	case everything.ShapeCaseNames:
		d.word(uint64(len(shape.Names)))
		for _, name := range shape.Names {
			d.text(name)
		}
	}
}

func (d *digest) parts(p *everything.EverythingPartsRequest) {
	d.text(p.Text)
	d.text(string(p.Blob))
	d.word(uint64(len(p.Numbers)))
	for _, number := range p.Numbers {
		d.word(uint64(number))
	}
	for _, number := range p.Fixed {
		d.word(uint64(number))
	}
	d.word(uint64(len(p.Flags)))
	for _, flag := range p.Flags {
		d.truth(flag)
	}
	d.entry(&p.Entry)
	d.word(uint64(len(p.Entries)))
	for i := range p.Entries {
		d.entry(&p.Entries[i])
	}
	d.shape(&p.Shape)
	d.word(uint64(len(p.Shapes)))
	for i := range p.Shapes {
		d.shape(&p.Shapes[i])
	}
	if d.truth(p.Maybe != nil); p.Maybe != nil {
		d.word(*p.Maybe)
	}
	if d.truth(p.MaybeText != nil); p.MaybeText != nil {
		d.text(*p.MaybeText)
	}
	if d.truth(p.MaybePoint != nil); p.MaybePoint != nil {
		d.point(p.MaybePoint)
	}
	if d.truth(p.MaybeEntry != nil); p.MaybeEntry != nil {
		d.entry(p.MaybeEntry)
	}
	for _, row := range p.Matrix {
		for _, number := range row {
			d.word(uint64(number))
		}
	}
	d.word(uint64(len(p.Nested)))
	for _, inner := range p.Nested {
		d.word(uint64(len(inner)))
		for _, number := range inner {
			d.word(uint64(number))
		}
	}
}
