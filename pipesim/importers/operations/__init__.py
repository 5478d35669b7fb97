"""Recorded runs from operations: tables of any columns, and dumps of pipelines.

files ── operation_table, column_mapping ──> OperationColumns ── run_assembly ──> RecordedRun
         pipeline_dumps                        communication_matching, clock_alignment
"""
