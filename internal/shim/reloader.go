// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
)

// pollPeriod is how often the files are compared with what was read, and how often the shim
// retries what has failed.
const pollPeriod = 5 * time.Second

// The parts of the shim that have problems.
const (
	partConfig   = "configuration"
	partClient   = "API client"
	partLastGood = "last good settings"
)

// The origins of the settings in use, label values of dnsconfigurer_config_source.
const (
	fromFiles    = "files"     // the configuration files, as they are or as they were when they were last valid
	fromLastGood = "last_good" // the file of lastGood
	fromNothing  = "none"      // there are no settings: every sandbox is passed
)

// A reloader applies the configuration of a shim, again when its files have changed and are
// the same at two polls, and at once on a signal. It retries until it succeeds. Unlike a
// daemon.Reloader it starts without a valid configuration: the node needs the shim.
type reloader struct {
	source   *config.Source[Config]
	flags    error            // why the command line is invalid; not nil: no configuration is valid
	signal   <-chan os.Signal // nil: none
	applier  *applier
	lastGood lastGood
	problems *problemList
	log      *slog.Logger

	agent   string // path of its socket
	serving Config // has the fields that take effect after a restart, as the shim serves
	success prometheus.Gauge
	origin  *prometheus.GaugeVec
	current string // origin of the settings
	applied Config // the settings
	saved   bool   // lastGood has applied
}

// register registers the metrics.
func (r *reloader) register(registry prometheus.Registerer) {
	r.success = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "dnsconfigurer_config_last_reload_success",
		Help: "1 if the configuration files were valid when they were last read, 0 if the server keeps a previous configuration.",
	})
	r.origin = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "dnsconfigurer_config_source",
		Help: "1 for where the settings come from: the files, the last good settings of a previous " +
			"process, or none. With none, every sandbox is passed.",
	}, []string{"source"})
	registry.MustRegister(r.success, r.origin)
}

// settings are a valid configuration, or the reason why there is none.
type settings struct {
	Config
	err error
}

func newSettings(c Config, err error) settings { return settings{c, err} }

// load returns the settings of the files and flags.
func (r *reloader) load() settings {
	if r.flags != nil {
		return settings{err: r.flags}
	}
	return newSettings(r.source.Load())
}

// start applies the first settings that are valid: those of the files, or the last good ones, or none.
func (r *reloader) start(files, last settings) {
	if files.err == nil {
		files.err = r.applyFiles(files.Config)
	}
	if files.err == nil {
		return
	}
	r.success.Set(0)
	if last.err == nil {
		last.err = r.applier.apply(last.Config)
	}
	if last.err == nil {
		r.applied = last.Config
		r.setOrigin(fromLastGood)
		r.setClientProblem()
	} else {
		r.setOrigin(fromNothing)
		r.applier.passAll(files.err)
		if !errors.Is(last.err, errNoState) && !errors.Is(last.err, os.ErrNotExist) {
			r.problems.set(partLastGood, "cannot read the last good settings", last.err)
		}
	}
	r.setConfigProblem(files.err)
}

// run keeps the settings up to date until ctx ends.
func (r *reloader) run(ctx context.Context) error {
	defer r.applier.end()
	poll := time.NewTicker(pollPeriod)
	defer poll.Stop()
	r.source.Changed() // the first poll
	for {
		r.applier.start(ctx)
		r.saveLastGood()
		select {
		case <-ctx.Done():
			return nil
		case <-r.signal:
			r.reload()
		case <-poll.C:
			// A file that changes between two polls may be half-written.
			if r.source.Changed() {
				r.reload()
			} else if r.source.Settled() {
				r.retry()
			}
		}
	}
}

// retry tries again what has failed, while the files stay as they are.
func (r *reloader) retry() {
	if r.problems.has(partConfig) {
		r.reload()
	}
	// The kubeconfig of the last good settings is not one of the files of r.source.
	if r.problems.has(partClient) || r.current == fromLastGood {
		r.applier.retryClient(r.applied)
		r.setClientProblem()
	}
}

// saveLastGood saves the settings for a start with an invalid configuration. It waits for the disk,
// so it runs after the shim serves.
func (r *reloader) saveLastGood() {
	if r.current == fromFiles && !r.saved {
		err := r.lastGood.save(r.applied)
		r.problems.set(partLastGood, "cannot keep the settings for the next start", err)
		r.saved = err == nil
	}
}

// reload applies the files again. If that fails, the settings stay.
func (r *reloader) reload() {
	files := r.load()
	if files.err == nil {
		files.err = r.applyFiles(files.Config)
	}
	if files.err != nil {
		r.success.Set(0)
		r.setConfigProblem(files.err)
		return
	}
	if fields := r.source.NeedRestart(r.serving, files.Config); fields != nil {
		r.log.Warn("changed fields take effect after a restart", "fields", fields)
	}
}

// applyFiles applies the configuration of the files. saveLastGood saves it.
func (r *reloader) applyFiles(c Config) error {
	if err := r.applier.apply(c); err != nil {
		return err
	}
	r.applied, r.saved = c, false
	r.success.Set(1)
	r.setOrigin(fromFiles)
	r.setConfigProblem(nil)
	r.setClientProblem()
	return nil
}

func (r *reloader) setOrigin(origin string) {
	r.current = origin
	for _, o := range []string{fromFiles, fromLastGood, fromNothing} {
		r.origin.WithLabelValues(o).Set(0)
	}
	r.origin.WithLabelValues(origin).Set(1)
}

// setConfigProblem records the error of the configuration files; nil is none.
func (r *reloader) setConfigProblem(err error) {
	message := "invalid configuration, keeping the previous one"
	switch r.current {
	case fromLastGood:
		message = "invalid configuration, using the last good settings"
	case fromNothing:
		message = "invalid configuration, passing all sandboxes unchanged"
	}
	r.problems.set(partConfig, message, err)
}

func (r *reloader) setClientProblem() {
	r.problems.set(partClient, "cannot create the API client, retrying", r.applier.clientErr)
}
