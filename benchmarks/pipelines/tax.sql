-- What bijuthottathil/SparkSDP reads as CSV files, and what stands for its bronze dataset, which has the time of the run and
-- the names of files in its columns.
CREATE TABLE tax_records (
    taxpayer_id STRING PRIMARY KEY, tin STRING, taxpayer_name STRING, tax_year INT, filing_status STRING, state STRING,
    gross_income DOUBLE, wages DOUBLE, interest_income DOUBLE, dividend_income DOUBLE, business_income DOUBLE,
    deductions DOUBLE, taxable_income DOUBLE, tax_liability DOUBLE, tax_withheld DOUBLE, estimated_payments DOUBLE,
    tax_paid DOUBLE, balance_due DOUBLE, refund_amount DOUBLE, filing_date STRING, return_type STRING
);
INSERT INTO tax_records VALUES
    ('TP001', '123-45', 'Alice', 2024, 'SINGLE', 'CA', 75000, 72000, 1500, 500, 1000, 14600, 60400, 9150, 9000, 0, 9000, 150,
     0, '2024-04-10', 'ORIGINAL'),
    ('TP002', '234-56', 'Bob', 2024, 'MARRIED_FILING_JOINTLY', 'TX', 145000, 130000, 5000, 8000, 2000, 29200, 115800, 18850,
     20000, 0, 20000, 0, 1150, '3/28/2025', 'ORIGINAL'),
    ('TP003', '345-67', 'Carol', 2025, 'head_of_household', 'ny', 15000, 13000, 1000, 500, 500, 21900, 3100, 358, 4200, 0,
     4200, 0, 242, '04/12/2024', 'AMENDED'),
    ('TP004', '456-78', ' David ', 2023, 'SINGLE', 'FL', 410000, 380000, 10000, 15000, 5000, 14600, 395400, 123910, 40000,
     5000, 45000, 0, 1090, '2024-03-15', 'ORIGINAL'),
    ('TP005', '567-89', 'Eve', 2024, 'QUALIFYING_WIDOW', 'CA', 250000, 1, 2, 3, 4, 5, 120000, 0, 7, 8, 9, 10, 0, 'soon',
     'ORIGINAL');
CREATE TABLE bronze_landed (
    taxpayer_id STRING, tin STRING, taxpayer_name STRING, tax_year INT, filing_status STRING, state STRING,
    gross_income DOUBLE, wages DOUBLE, interest_income DOUBLE, dividend_income DOUBLE, business_income DOUBLE,
    deductions DOUBLE, taxable_income DOUBLE, tax_liability DOUBLE, tax_withheld DOUBLE, estimated_payments DOUBLE,
    tax_paid DOUBLE, balance_due DOUBLE, refund_amount DOUBLE, filing_date STRING, return_type STRING,
    _source_path STRING, _ingested_at TIMESTAMP, _pipeline_run_date DATE
);
