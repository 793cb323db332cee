;;; client.el --- a client of Truce by jsonrpc.el  -*- lexical-binding: t -*-
;; SPDX-License-Identifier: Apache-2.0
;;
;;     emacs --batch --quick --load client.el MOUNT FILE FOLDER
;;
;; The client has unsaved text for MOUNT/FILE in a buffer, and saves it when another program wants to read the file. After
;; another program has changed the file, the client writes the number of lines to FILE.count. It ends when a new file appears in
;; MOUNT/FOLDER.

(require 'jsonrpc)

(pcase-let ((`(,mount ,file ,folder) command-line-args-left))
  (defvar client-mount (file-name-as-directory mount))
  (defvar client-file file)
  (defvar client-folder folder))
(defvar client-buffer (find-file-noselect (concat client-mount client-file)))
(defvar client-connection nil)
(defvar client-presenter nil "The number of our presenter.")
(defvar client-done nil)

(defun client-call (method parameters then)
  "Send a request, and call THEN with its result.
Nobody waits here: `jsonrpc-request' would let lie what is read together with its reply, until more comes."
  (jsonrpc-async-request
   client-connection method parameters :success-fn then :timeout nil
   :error-fn (lambda (failure) (error "%s: %s" method (plist-get failure :message)))))

(defun client-cause (parameters)
  (plist-get (plist-get parameters :cause) :program))

(defun client-place (path) (concat client-mount path))

;; Handles the requests of the daemon. The library sends an error in this function back to the daemon.
(defun client-asked (_connection method parameters)
  (pcase method
    ('presenter/save
     (with-current-buffer client-buffer
       (when (buffer-modified-p)
         (save-buffer)
         (message "saved for %s" (client-cause parameters))))
     (make-hash-table))
    (_ (jsonrpc-error "not implemented: %s" method))))

;; Handles the notices of the daemon.
(defun client-told (_connection method parameters)
  (pcase method
    ('presenter/didChange
     (message "changed by %s" (client-cause parameters))
     (client-call 'access/begin
                  `(:presenter ,client-presenter
                    :intents [(:path ,client-file :access "read" :options ["withoutChanges"])
                              (:path ,(concat client-file ".count") :access "forReplacing")])
                  #'client-count))
    ('events/event
     (when (equal (plist-get parameters :kind) "appeared")
       (message "%s appeared by %s" (plist-get parameters :path) (client-cause parameters))
       (setq client-done t)))))

(defun client-count (access)
  (with-current-buffer client-buffer
    (revert-buffer t t)
    (write-region (format "%d\n" (count-lines (point-min) (point-max))) nil
                  ;; The reply contains the present name, because the file may have been renamed while the access waited.
                  (client-place (plist-get (aref (plist-get access :intents) 1) :path)) nil 'silent))
  (client-call 'access/end (list :access (plist-get access :access))
               (lambda (_) (message "counted the lines"))))

(defun client-connect ()
  ;; The command `truce socket` checks that the directory is a mount of Truce.
  (let ((socket (car (process-lines "truce" "socket" client-mount))))
    (jsonrpc-process-connection
     :name "truce" :request-dispatcher #'client-asked :notification-dispatcher #'client-told
     :on-shutdown (lambda (_) (error "The daemon has hung up"))
     :process (make-network-process :name "truce" :family 'local :service socket :coding 'binary))))

(setq make-backup-files nil create-lockfiles nil save-silently t revert-without-query '("."))
(with-current-buffer client-buffer
  (erase-buffer)
  (insert "unsaved words of Emacs\n"))
(setq client-connection (client-connect))
(client-call 'initialize '(:client (:name "client.el" :version "1") :protocol (:min 1 :max 1)) #'ignore)
(client-call 'presenter/register `(:path ,client-file :messages ["save" "didChange"])
             (lambda (result) (setq client-presenter (plist-get result :presenter))))
(client-call 'events/subscribe `(:path ,client-folder)
             (lambda (_) (message "presenting %s" client-file)))
(while (not client-done) (accept-process-output nil 60))
(kill-emacs)
