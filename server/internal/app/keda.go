package app

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/sluicehq/sluice/server/internal/scaler"
)

// kedaServer is the listener where KEDA asks for the pressure on rules.
type kedaServer struct {
	ln     net.Listener
	scaler *scaler.Server
}

// openKeda opens the listener for KEDA, unless it is off.
func (a *App) openKeda() error {
	at := a.file.Listen.Keda
	config, err := serverTLS(Keda, at.TLS)
	if err != nil {
		return err
	}
	ln, err := bind(Keda, at)
	if err != nil || ln == nil {
		return err
	}
	a.keda = &kedaServer{ln: ln}
	a.keda.scaler, err = scaler.New(scaler.Options{
		Pressure: func(rule string) (float64, bool) { return a.pressure(rule), a.engine.hasRule(rule) },
		TLS:      config,
	})
	return err
}

// serve answers until the server drains; the error is nil then.
func (k *kedaServer) serve(connections int) error {
	if err := k.scaler.Serve(newBoundedListener(k.ln, connections)); err != nil {
		return fmt.Errorf("sluice: the %s listener: %w", Keda, err)
	}
	return nil
}

// drain says that the server is about to stop, and ends the streams.
func (k *kedaServer) drain() {
	if k != nil {
		k.scaler.Drain()
	}
}

// shutdown lets calls end, which are short.
func (k *kedaServer) shutdown() {
	if k == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// Who watches the health for longer is cut off.
	_ = k.scaler.Shutdown(ctx)
}

// giveUp closes what does not serve.
func (k *kedaServer) giveUp() {
	if k == nil {
		return
	}
	_ = k.ln.Close() // it served nobody
	if k.scaler != nil {
		k.scaler.Close()
	}
}
