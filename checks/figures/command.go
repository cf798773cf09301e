package figures

import (
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/pprof"
)

// Command is what a command that measures takes from its command line, and what
// becomes of its report.
type Command struct {
	// Flags are those that all have. A command adds its own before Parse.
	Flags *flag.FlagSet
	// Quick asks for a short run.
	Quick bool
	// Only matches the part/subject pairs that are asked for.
	Only *regexp.Regexp

	only, out, profile string
}

// NewCommand returns the command of checks/cmd with this name.
func NewCommand(name string, stderr io.Writer) *Command {
	c := &Command{Flags: flag.NewFlagSet(name, flag.ContinueOnError)}
	c.Flags.SetOutput(stderr)
	c.Flags.BoolVar(&c.Quick, "quick", false, "a short run with fewer keys, to see that all works; its figures mean little")
	c.Flags.StringVar(&c.only, "only", "", "measure only the `part/subject` pairs that match this regular expression, as in '(hot|keys).*/sluice'")
	c.Flags.StringVar(&c.out, "o", "", "also write the report to this `file`, in Markdown")
	c.Flags.StringVar(&c.profile, "cpuprofile", "", "write a processor profile of this program to this `file`")
	return c
}

// Parse reads the command line. There is nothing on it but flags.
func (c *Command) Parse(args []string) (err error) {
	if err := c.Flags.Parse(args); err != nil {
		return err
	}
	if c.Flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; see -help", c.Flags.Arg(0))
	}
	if c.Only, err = regexp.Compile(c.only); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	return nil
}

// Profile begins the profile that was asked for. The function it returns ends it.
func (c *Command) Profile() (end func(), err error) {
	if c.profile == "" {
		return func() {}, nil
	}
	f, err := os.Create(c.profile)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		_ = f.Close() // empty
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close() // a profile that is cut short is seen when it is read
	}, nil
}

// Publish writes the report, also to the file that was asked for.
func (c *Command) Publish(report string, stdout io.Writer) error {
	if _, err := io.WriteString(stdout, report); err != nil {
		return err
	}
	if c.out == "" {
		return nil
	}
	return os.WriteFile(c.out, []byte(report), 0o644)
}

// Line returns the command line that measures the same, without the flags that
// only say where to write and what to do with a bar that does not hold.
func (c *Command) Line() string {
	line := "go -C checks run ./cmd/" + c.Flags.Name()
	c.Flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "o", "cpuprofile", "check":
		case "quick":
			line += " -quick"
		case "only":
			line += " -only '" + f.Value.String() + "'"
		default:
			line += " -" + f.Name + " " + f.Value.String()
		}
	})
	return line
}
