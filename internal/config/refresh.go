// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

const (
	maxRefreshRate = 200         // in a second: the writer waits 5 ms after each write
	minVerify      = time.Second // reading the files of 110 pods takes some milliseconds
)

// refreshScopes are the values of RefreshConfiguration.Refresh.
var refreshScopes = []string{"Off", "DefaultPolicyOnly", "All"}

// refreshFields returns the fields of a RefreshConfiguration. at returns it, and the value of
// VerifyInterval. socket is the default of StatusSocket.
func refreshFields[C any](socket string, at func(*C) (*v1alpha1.RefreshConfiguration, *time.Duration)) []Field[C] {
	of := func(c *C) *v1alpha1.RefreshConfiguration { r, _ := at(c); return r }
	return []Field[C]{
		{
			Path: "sandboxDirectories", At: func(c *C) any { return &of(c).SandboxDirectories },
			Check: func(c *C) error { return checkSandboxDirectories(of(c)) },
		},
		{
			Path: "refresh", At: func(c *C) any { return &of(c).Refresh }, Values: refreshScopes,
			Check: func(c *C) error { return setDefault(&of(c).Refresh, v1alpha1.DefaultRefresh) },
		},
		{Path: "refreshDryRun", At: func(c *C) any { return &of(c).RefreshDryRun }},
		{
			Path: "refreshRate", At: func(c *C) any { return &of(c).RefreshRate },
			Check: func(c *C) error { return checkRefreshRate(of(c)) },
		},
		{
			Path: "verifyInterval", At: func(c *C) any { return &of(c).VerifyInterval },
			Check: func(c *C) (err error) {
				r, verify := at(c)
				*verify, err = parseVerifyInterval(r)
				return err
			},
		},
		{
			Path: "statusSocket", Restart: true, At: func(c *C) any { return &of(c).StatusSocket },
			Check: func(c *C) error { return checkStatusSocket(of(c), socket) },
		},
	}
}

// checkSandboxDirectories sets the directories of the known runtimes if there are none.
func checkSandboxDirectories(c *v1alpha1.RefreshConfiguration) error {
	if len(c.SandboxDirectories) == 0 {
		c.SandboxDirectories = []string{v1alpha1.DefaultContainerdSandboxes, v1alpha1.DefaultCRIOSandboxes, v1alpha1.DefaultK3sSandboxes}
	}
	var problems []error
	for i, d := range c.SandboxDirectories {
		if !filepath.IsAbs(d) || filepath.Clean(d) == "/" {
			problems = append(problems, itemError{i, fmt.Errorf("%q is not an absolute path below /", d)})
		}
	}
	return errors.Join(problems...)
}

// checkRefreshRate sets the default, and checks the bounds.
func checkRefreshRate(c *v1alpha1.RefreshConfiguration) error {
	c.RefreshRate = cmp.Or(c.RefreshRate, v1alpha1.DefaultRefreshRate)
	if c.RefreshRate < 1 || c.RefreshRate > maxRefreshRate {
		return fmt.Errorf("%d: want 1 to %d", c.RefreshRate, maxRefreshRate)
	}
	return nil
}

// parseVerifyInterval sets the default, and returns the interval.
func parseVerifyInterval(c *v1alpha1.RefreshConfiguration) (time.Duration, error) {
	verify, err := parseDuration(&c.VerifyInterval, v1alpha1.DefaultVerifyInterval)
	if err == nil && verify > 0 && verify < minVerify {
		err = fmt.Errorf("%q: want 0s, or at least %v", c.VerifyInterval, minVerify)
	}
	return verify, err
}

// checkStatusSocket sets the default if the field is absent, and makes it the path of the socket.
func checkStatusSocket(c *v1alpha1.RefreshConfiguration, socket string) error {
	if c.StatusSocket == nil {
		c.StatusSocket = &socket
	}
	if *c.StatusSocket == "" {
		return nil
	}
	endpoint := *c.StatusSocket
	if err := parseSocket(&endpoint, ""); err != nil {
		return err
	}
	c.StatusSocket = new(SocketPath(endpoint))
	return nil
}
