// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package deploy contains the files that install dnsconfigurer on nodes and in clusters:
// systemd units, manifests and admission policies.
//
// Its tests compare them with the program: paths, flags and names agree in all places, and
// the program, systemd and the Kubernetes API accept the files.
package deploy
