// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// KeyPair is a certificate and its key in two files, which are read again when they change.
// The files are compared at each call of Current, at handshakes and for readiness, because a
// watch can miss bind mounts, renamed files and replaced links. While the two do not match,
// such as between the writes of one and of the other, the previous pair is served.
type KeyPair struct {
	certFile, keyFile string
	log               *slog.Logger

	mu     sync.Mutex
	served *tls.Certificate
	cert   os.FileInfo // of the last reading; nil: no such file
	key    os.FileInfo
	err    error // of the last reading
}

// NewKeyPair reads the two files. It returns an error if they are unreadable or do not match.
func NewKeyPair(certFile, keyFile string, log *slog.Logger) (*KeyPair, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	p := &KeyPair{certFile: certFile, keyFile: keyFile, log: log}
	if _, err := p.Current(); err != nil {
		return nil, err
	}
	return p, nil
}

// Current returns the certificate to serve. The error is set if the files have another one
// that cannot be used, or if the certificate is not valid now.
func (p *KeyPair) Current() (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reloadLocked()
	if p.served == nil || p.err != nil {
		return p.served, p.err
	}
	switch now, leaf := time.Now(), p.served.Leaf; {
	case now.After(leaf.NotAfter):
		return p.served, fmt.Errorf("certificate %s expired on %v", p.certFile, leaf.NotAfter)
	case now.Before(leaf.NotBefore):
		return p.served, fmt.Errorf("certificate %s is not valid before %v", p.certFile, leaf.NotBefore)
	}
	return p.served, nil
}

// reloadLocked reads the files again if they have changed.
func (p *KeyPair) reloadLocked() {
	cert, key := stat(p.certFile), stat(p.keyFile) // before the reading, so that a later change is noticed
	if p.served != nil && unchanged(cert, p.cert) && unchanged(key, p.key) {
		return
	}
	c, err := p.load(cert, key)
	p.cert, p.key, p.err = cert, key, err
	if err != nil {
		p.err = fmt.Errorf("reading %s and %s: %w", p.certFile, p.keyFile, err)
		if p.served != nil {
			p.log.Warn("invalid certificate, keeping the previous one", "error", p.err)
		}
		return
	}
	if p.served != nil {
		p.log.Info("certificate loaded", "names", c.Leaf.DNSNames, "until", c.Leaf.NotAfter)
	}
	p.served = &c
}

// maxPEM is the maximum size of a certificate with its intermediate certificates, and of a key, in bytes.
// A Secret of Kubernetes has 1 MiB at most.
const maxPEM = 1 << 20

// load reads the two files, nil if a file does not exist. A FIFO would block each handshake, and a device may
// have no end.
func (p *KeyPair) load(cert, key os.FileInfo) (tls.Certificate, error) {
	for _, info := range []os.FileInfo{cert, key} {
		switch {
		case info == nil: // reading it returns the reason
		case !info.Mode().IsRegular():
			return tls.Certificate{}, fmt.Errorf("%s is not a regular file", info.Name())
		case info.Size() > maxPEM:
			return tls.Certificate{}, fmt.Errorf("%s is larger than %d bytes", info.Name(), maxPEM)
		}
	}
	return tls.LoadX509KeyPair(p.certFile, p.keyFile)
}

// stat returns the file information, or nil if the file cannot be accessed.
func stat(path string) os.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return info
}

// unchanged reports whether a and b are the same version of a file. A file that was renamed to
// the path can have the same time and size.
func unchanged(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
