package tombolo

import (
	"context"
	"fmt"
	"math"
	"sort"

	"tombolo/internal/control"
)

// A Record is a name of the machine or of a node, with attributes.
type Record struct {
	// The name, without its scope.
	Name string

	// Attributes; values are int64, float64, string, bool or []byte.
	Attributes map[string]any

	// Version, which grows with every change in the scope.
	Version uint64

	// The domain whose end deletes the record; 0 if it lives as long as its scope.
	Owner DomainID

	// Whether the owner exports the name, so that domains can connect to it.
	Endpoint bool
}

// Lifetime is how long a record lives.
type Lifetime = control.Lifetime

// Lifetimes: records end with the domain that set them, or with their machine or node.
const (
	Transient  = control.LifetimeTransient
	Persistent = control.LifetimePersistent
)

// names sends a request about names.
func (d *Domain) names(ctx context.Context, op string, scope control.Scope, operation control.Operation) (control.Answer, error) {
	var reply control.MonitorNamesReply
	request := control.MonitorNamesRequest{Scope: scope, Operation: operation}
	received, err := d.monitor.ask(ctx, op, &control.MonitorNamesMessage, &request, &reply)
	received.close()
	return reply.Answer, err
}

// attributes encodes attributes, sorted by name as the monitor requires.
func attributes(op string, values map[string]any) ([]control.Attribute, error) {
	var list []control.Attribute
	for name, value := range values {
		of, err := valueOf(value)
		if err != nil {
			return nil, failure(ErrInvalidArgument, op, "attribute '%s': %v", name, err)
		}
		list = append(list, control.Attribute{Name: name, Value: of})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, nil
}

func valueOf(value any) (control.Value, error) {
	switch value := value.(type) {
	case int:
		return control.Value{Case: control.ValueCaseInteger, Integer: int64(value)}, nil
	case int64:
		return control.Value{Case: control.ValueCaseInteger, Integer: value}, nil
	case float64:
		if math.IsNaN(value) {
			return control.Value{}, fmt.Errorf("not a number")
		}
		return control.Value{Case: control.ValueCaseFloat, Float: control.Float{Value: value}}, nil
	case string:
		return control.Value{Case: control.ValueCaseText, Text: value}, nil
	case bool:
		return control.Value{Case: control.ValueCaseBool, Bool: value}, nil
	case []byte:
		return control.Value{Case: control.ValueCaseBytes, Bytes: value}, nil
	}
	return control.Value{}, fmt.Errorf("a %T; values are int, int64, float64, string, bool and []byte", value)
}

func recordOf(of *control.Record) Record {
	record := Record{Name: of.Name, Attributes: map[string]any{}, Version: of.Version, Endpoint: of.Endpoint}
	if of.Owner != nil {
		record.Owner = *of.Owner
	}
	for _, attribute := range of.Attributes {
		var value any
		switch of := attribute.Value; of.Case {
		case control.ValueCaseInteger:
			value = of.Integer
		case control.ValueCaseFloat:
			value = of.Float.Value
		case control.ValueCaseText:
			value = of.Text
		case control.ValueCaseBool:
			value = of.Bool
		case control.ValueCaseBytes:
			value = of.Bytes
		}
		record.Attributes[attribute.Name] = value
	}
	return record
}

// SetRecord sets a record and returns its version. Scopes in names are as for Connect.
func (d *Domain) SetRecord(ctx context.Context, name string, values map[string]any, lifetime Lifetime) (uint64, error) {
	op := "set the record '" + name + "'"
	list, err := attributes(op, values)
	if err != nil {
		return 0, err
	}
	ctx, cancel := withDefaultTimeout(ctx, d.Timeout())
	defer cancel()
	scope, rest := d.splitScope(name)
	answer, err := d.names(ctx, op, scope, control.Operation{Case: control.OperationCaseSet, Set: control.OperationSet{
		Name: rest, Attributes: list, Lifetime: lifetime, Condition: control.Condition{Case: control.ConditionCaseAlways},
	}})
	return answer.Changed.Version, err
}

// DeleteRecord deletes a record.
func (d *Domain) DeleteRecord(ctx context.Context, name string) error {
	ctx, cancel := withDefaultTimeout(ctx, d.Timeout())
	defer cancel()
	scope, rest := d.splitScope(name)
	_, err := d.names(ctx, "delete the record '"+name+"'", scope, control.Operation{
		Case:   control.OperationCaseDelete,
		Delete: control.OperationDelete{Name: rest, Condition: control.Condition{Case: control.ConditionCaseAlways}},
	})
	return err
}

// query returns the query for names that match a glob.
func query(glob string) control.Query {
	return control.Query{Name: control.NamePattern{Case: control.NamePatternCaseGlob, Glob: glob}}
}

// FindRecords lists the records whose names match a glob, in natural order. In globs * matches any text and ?
// any character.
func (d *Domain) FindRecords(ctx context.Context, glob string) ([]Record, error) {
	ctx, cancel := withDefaultTimeout(ctx, d.Timeout())
	defer cancel()
	scope, rest := d.splitScope(glob)
	var all []Record
	for after := ""; ; {
		answer, err := d.names(ctx, "find '"+glob+"'", scope, control.Operation{
			Case: control.OperationCaseFind,
			Find: control.OperationFind{Query: query(rest), After: after, Limit: 256},
		})
		if err != nil {
			return nil, err
		}
		for i := range answer.Found.Records {
			all = append(all, recordOf(&answer.Found.Records[i]))
		}
		if answer.Found.Next == nil {
			return all, nil
		}
		after = *answer.Found.Next
	}
}

// AwaitRecord waits for a record whose name matches a glob.
func (d *Domain) AwaitRecord(ctx context.Context, glob string) (Record, error) {
	ctx, cancel := withDefaultTimeout(ctx, d.Timeout())
	defer cancel()
	deadline, _ := ctx.Deadline()
	extended, done := replaceDeadline(ctx, deadline.Add(answerTimeout))
	defer done()
	scope, rest := d.splitScope(glob)
	answer, err := d.names(extended, "wait for the record '"+glob+"'", scope, control.Operation{
		Case:  control.OperationCaseAwait,
		Await: control.OperationAwait{Query: query(rest), Timeout: control.Duration{Ns: remaining(deadline)}},
	})
	if err != nil {
		return Record{}, err
	}
	return recordOf(&answer.There.Record), nil
}

// A Lock is a lock of the machine or of a node that this domain holds. It passes to the next waiter when it
// is unlocked or the domain ends.
type Lock struct {
	domain *Domain
	name   string

	// Fencing token, larger than those of all earlier holders: rejects operations of one that lost the lock.
	Token uint64
}

// Lock acquires a lock; requests are served in order.
func (d *Domain) Lock(ctx context.Context, name string) (*Lock, error) {
	ctx, cancel := withDefaultTimeout(ctx, d.Timeout())
	defer cancel()
	deadline, _ := ctx.Deadline()
	extended, done := replaceDeadline(ctx, deadline.Add(answerTimeout))
	defer done()
	scope, rest := d.splitScope(name)
	answer, err := d.names(extended, "lock '"+name+"'", scope, control.Operation{
		Case: control.OperationCaseLock,
		Lock: control.OperationLock{Name: rest, Timeout: control.Duration{Ns: remaining(deadline)}},
	})
	if err != nil {
		return nil, err
	}
	return &Lock{domain: d, name: name, Token: answer.Locked.Token}, nil
}

// Unlock releases the lock to the next waiter.
func (l *Lock) Unlock(ctx context.Context) error {
	ctx, cancel := withDefaultTimeout(ctx, l.domain.Timeout())
	defer cancel()
	scope, rest := l.domain.splitScope(l.name)
	_, err := l.domain.names(ctx, "unlock '"+l.name+"'", scope, control.Operation{
		Case: control.OperationCaseUnlock, Unlock: control.OperationUnlock{Name: rest, Token: l.Token},
	})
	return err
}
