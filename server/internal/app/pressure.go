package app

import (
	"context"
	"time"

	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/policyfile"
)

// compile makes the policy of a configuration. Its rules can ask for the pressure on others.
func (a *App) compile(f *policyfile.File) (*policy.Policy, error) {
	o, err := f.PolicyOptions()
	if err != nil {
		return nil, err
	}
	o.Pressure = a.pressure
	return policy.New(o)
}

// pressure returns the pressure on a rule, which the gate measures for all edges.
func (a *App) pressure(rule string) float64 { return a.gate.Pressure(rule) }

// openGate makes the gate that all edges have in common, over the store.
func (a *App) openGate() (err error) {
	o := gate.Options{Window: a.o.Window, OnError: func(_ context.Context, err error) { a.storeFailed(err) }}
	if r := a.file.Store.Redis; r != nil && r.Local.Share.Parts > 0 {
		// One of several processes sees that part of the demand.
		o.Share = float64(r.Local.Share.Of) / float64(r.Local.Share.Parts)
	}
	a.gate, err = gate.New(a.store, o)
	return err
}

// storeFailed logs an error of the store for which no request failed, a few a second.
func (a *App) storeFailed(err error) {
	if hidden, ok := a.errorLog.Take(time.Now()); ok {
		a.logger.Error("the store failed", "error", err, "not_logged", hidden)
	}
}

// storeErrors is how many of them are logged a second.
const storeErrors = 10
