package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// A Process is a process of the fleet, as its parent sees it. It is not safe for concurrent use.
type Process struct {
	Spec   Spec
	in     io.WriteCloser
	out    *json.Decoder
	cmd    *exec.Cmd
	stderr bytes.Buffer
	ended  bool
}

// Start runs a process until End or Kill. It is ready when Start returns.
func Start(s Spec) (*Process, error) {
	p, err := launch(s)
	if err != nil {
		return nil, err
	}
	err = p.ready()
	return p, err
}

// StartAll starts processes at the same time.
func StartAll(specs []Spec) ([]*Process, error) {
	var all []*Process
	for _, s := range specs {
		p, err := launch(s)
		if err != nil {
			return all, err
		}
		all = append(all, p)
	}
	for _, p := range all {
		if err := p.ready(); err != nil {
			return all, err
		}
	}
	return all, nil
}

func launch(s Spec) (*Process, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	path := s.Program
	if path == "" {
		if path, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	p := &Process{Spec: s, cmd: exec.Command(path)}
	p.cmd.Env = append(os.Environ(), specEnv+"="+string(text))
	p.cmd.Stderr = &p.stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = json.NewDecoder(out)
	return p, p.cmd.Start()
}

// ready waits until the process sends requests.
func (p *Process) ready() error {
	_, err := p.answer()
	return err
}

func (p *Process) send(c command) error {
	if p.ended {
		return errEnded
	}
	return json.NewEncoder(p.in).Encode(c)
}

func (p *Process) answer() (Stats, error) {
	var s Stats
	if err := p.out.Decode(&s); err != nil {
		return s, fmt.Errorf("fleet: a process does not answer: %w: %s", err, p.stderr.String())
	}
	return s, nil
}

func (p *Process) obey(c command) (Stats, error) {
	if err := p.send(c); err != nil {
		return Stats{}, err
	}
	return p.answer()
}

// Stats returns what the process has counted.
func (p *Process) Stats() (Stats, error) { return p.obey(command{}) }

// Demand changes the requests per second of each load.
func (p *Process) Demand(perSecond ...float64) error {
	_, err := p.obey(command{Demand: perSecond})
	return err
}

// Drain returns all grants.
func (p *Process) Drain() error {
	_, err := p.obey(command{Drain: true})
	return err
}

// RaceAll lets all processes race at the same time.
func RaceAll(all []*Process, r Race) ([]Stats, error) {
	for _, p := range all {
		if err := p.send(command{Race: &r}); err != nil {
			return nil, err
		}
	}
	var stats []Stats
	for _, p := range all {
		s, err := p.answer()
		if err != nil {
			return nil, err
		}
		stats = append(stats, s)
	}
	return stats, nil
}

// Pause stops the process (SIGSTOP).
func (p *Process) Pause() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets a paused process go on (SIGCONT).
func (p *Process) Resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// Kill ends the process (SIGKILL). It is not an error if the process has ended.
func (p *Process) Kill() error {
	if p.ended {
		return nil
	}
	p.ended = true
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_ = p.cmd.Wait() // it was killed
	return nil
}

// End ends the process in order. It is not an error if the process has ended.
func (p *Process) End() error {
	if p.ended {
		return nil
	}
	p.ended = true
	_ = p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("fleet: a process ended with %w: %s", err, p.stderr.String())
	}
	return nil
}
