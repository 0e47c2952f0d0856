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
	source   *config.Source[config.Shim]
	flags    error            // of the command line; not nil: no configuration is valid
	signal   <-chan os.Signal // nil: none
	applier  *applier
	lastGood lastGood
	problems *problems
	log      *slog.Logger

	handedOver <-chan struct{} // closed when another process serves: the settings stay

	serving config.Shim // has the fields that take effect after a restart, as the shim serves
	success prometheus.Gauge
	origin  *prometheus.GaugeVec
	current string      // origin of the settings
	applied config.Shim // the settings
	kept    bool        // lastGood has applied
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

// load returns the configuration of the files and flags.
func (r *reloader) load() (config.Shim, error) {
	if r.flags != nil {
		return config.Shim{}, r.flags
	}
	return r.source.Load()
}

// start applies the first settings: c, or if loadErr is not nil the last good ones, or if
// lastErr is not nil none.
func (r *reloader) start(c config.Shim, loadErr error, last config.Shim, lastErr error) {
	if loadErr == nil {
		if loadErr = r.applyFiles(c); loadErr == nil {
			return
		}
	}
	if lastErr == nil {
		lastErr = r.applier.apply(last)
	}
	r.success.Set(0)
	if lastErr == nil {
		r.applied = last
		r.setOrigin(fromLastGood)
		r.setClientProblem()
	} else {
		r.setOrigin(fromNothing)
		r.applier.pass(loadErr)
		if !errors.Is(lastErr, errNoState) && !errors.Is(lastErr, os.ErrNotExist) {
			r.problems.set(partLastGood, "cannot read the last good settings", lastErr)
		}
	}
	r.setConfigProblem(loadErr)
}

// run keeps the settings up to date until ctx ends.
func (r *reloader) run(ctx context.Context) error {
	defer r.applier.end()
	poll := time.NewTicker(pollPeriod)
	defer poll.Stop()
	r.source.Changed() // the first poll
	for {
		r.applier.start(ctx)
		r.keep()
		select {
		case <-ctx.Done():
			return nil
		case <-r.handedOver:
			r.applier.hostReport.end() // the other process reports
			<-ctx.Done()
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

// keep keeps the settings for a start with an invalid configuration. It waits for the disk, so
// it runs after the shim serves.
func (r *reloader) keep() {
	if r.current == fromFiles && !r.kept {
		err := r.lastGood.save(r.applied)
		r.problems.set(partLastGood, "cannot keep the settings for the next start", err)
		r.kept = err == nil
	}
}

// reload applies the files again. If that fails, the settings stay.
func (r *reloader) reload() {
	c, err := r.load()
	if err == nil {
		err = r.applyFiles(c)
	}
	if err != nil {
		r.success.Set(0)
		r.setConfigProblem(err)
		return
	}
	if fields := r.source.NeedRestart(r.serving, c); fields != nil {
		r.log.Warn("changed fields take effect after a restart", "fields", fields)
	}
}

// applyFiles applies the configuration of the files and keeps it for the next start.
func (r *reloader) applyFiles(c config.Shim) error {
	if err := r.applier.apply(c); err != nil {
		return err
	}
	r.applied, r.kept = c, false
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
